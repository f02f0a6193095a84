# VideoPro as a server, and every other command: docs/serve.md#docker.
#   docker build -t videopro .                                for a CPU
#   docker build -t videopro:cuda --build-arg DEVICE=cuda .   for NVIDIA GPUs
ARG PYTHON=3.12
ARG DEVICE=cpu

FROM python:${PYTHON}-slim-trixie AS base
# Of pyproject.toml: "serve" is the server, "encoders" searches subtitles by meaning.
ARG EXTRAS=serve,encoders
WORKDIR /opt/videopro
# What the project needs first: a change of its code does not install that again.
COPY pyproject.toml ./
RUN python -c "import sys, tomllib; \
project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
extras = project['optional-dependencies']; \
print(*project['dependencies'], *(need for name in sys.argv[1].split(',') for need in extras[name]), sep='\n')" \
    "$EXTRAS" > needs.txt && grep '^torch' needs.txt > torch.txt

FROM base AS torch-cpu
# The address of PyTorch's packages for CPUs, as its installation page gives it. Unset: the build for CUDA, which runs on
# a CPU too and takes about 5 GB more.
ARG TORCH_INDEX=
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -r torch.txt

FROM base AS torch-cuda
# The packages hold CUDA; of the host only the driver is needed, and NVIDIA's container toolkit.
RUN pip install --no-cache-dir -r torch.txt && python -c "import torch; assert torch.version.cuda"
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# hadolint ignore=DL3006
FROM torch-${DEVICE} AS videopro
WORKDIR /opt/videopro
RUN pip install --no-cache-dir -r needs.txt
COPY README.md LICENSE ./
COPY configs configs
COPY data_synthesis data_synthesis
COPY modules modules
COPY train train
COPY videopro videopro
RUN pip install --no-cache-dir --no-deps . \
    && mkdir /data && useradd --uid 10001 --home-dir /data videopro && chown videopro /data
USER 10001
WORKDIR /data
# Videos, answers, indexes and downloaded models: everything that is to outlive the container.
VOLUME /data
ENV VIDEOPRO_CACHE=/data/cache \
    HF_HOME=/data/hub \
    PYTHONUNBUFFERED=1
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=30m \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/health', timeout=4)"]
ENTRYPOINT ["videopro"]
# Without another command: the pocket model, which needs no GPU and no download, and knows its own videos only. No key is
# needed: whoever publishes the port says who can reach it.
CMD ["serve", "--model", "pocket", "--host", "0.0.0.0", "--no-key", "--port", "8080", "--output", "/data/serve"]
