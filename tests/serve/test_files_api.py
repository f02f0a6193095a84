"""Videos over HTTP: uploads, pictures, subtitles, and what hostile clients send."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from openai import APIStatusError, OpenAI
from PIL import Image
from starlette.datastructures import UploadFile

from tests.support.colours import make_video
from tests.support.served import World

FORM = {"content-type": "multipart/form-data; boundary=x"}
HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n'


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "red.mp4"
    make_video(path, "red")
    return path


def test_the_client_uploads_a_video(client: OpenAI, world: World, red: Path) -> None:
    video = client.files.create(file=red, purpose="user_data")
    content = red.read_bytes()
    assert video.id == "file-" + hashlib.sha256(content).hexdigest()[:32]
    assert (video.bytes, video.filename, video.object) == (len(content), "red.mp4", "file")
    about: dict[str, Any] = video.videopro  # type: ignore[attr-defined]
    assert about["duration"] == 2.0
    assert (about["width"], about["height"], about["subtitles"], about["problem"]) == (64, 48, False, None)
    assert client.files.create(file=red, purpose="user_data").id == video.id
    assert [each.id for each in client.files.list()].count(video.id) == 1
    assert client.files.content(video.id).content == content
    assert not list(world.state.videos.incoming.iterdir())


def test_a_video_is_sent_in_ranges_and_as_pictures(world: World) -> None:
    video = world.video("blue")
    part = world.client.get(f"/v1/files/{video}/content", headers={"Range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, b"ftyp")
    address = f"/v1/files/{video}/content"
    whole = world.client.get(address)
    # RFC 9110: what is no range of bytes is ignored, and what is outside the file is refused.
    for ignored in ("frames=4-7", "bytes", "bytes=", "bytes=x-y", "bytes=7-4"):
        reply = world.client.get(address, headers={"Range": ignored})
        assert (reply.status_code, reply.content) == (200, whole.content), ignored
    assert world.client.get(address, headers={"Range": "bytes=999999-"}).status_code == 416
    head = world.client.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    assert (head.headers["accept-ranges"], head.headers["content-type"]) == ("bytes", "video/mp4")
    for path in ("/", "/health", "/v1/models", f"/v1/files/{video}"):
        assert world.client.head(path).status_code == 200, path
    assert world.client.head(f"/v1/files/{video}/subtitles").status_code == 405
    picture = world.client.get(f"/v1/files/{video}/frame?time=1&side=32")
    image = Image.open(io.BytesIO(picture.content))
    assert (image.format, image.size) == ("JPEG", (32, 24))
    red, green, blue = image.convert("RGB").getpixel((16, 12))  # type: ignore[misc]
    assert blue > 150 > max(red, green)
    crop = world.client.get(f"/v1/files/{video}/frame?time=1&side=32&box=0,0,0.5,0.5")
    assert Image.open(io.BytesIO(crop.content)).size == (32, 24)
    places = ("-1", "nan", "inf", "1e400", "1&side=99999", "1&box=1,2,3", "1&box=0.5,0,0.2,1")
    for wrong in places:
        reply = world.client.get(f"/v1/files/{video}/frame?time={wrong}")
        assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error"), wrong
        assert str(world.folder) not in reply.text


NAME = "Kätzchen 日本.mp4"


@pytest.mark.parametrize(
    "said",
    [
        f'filename="{NAME}"',  # curl and browsers
        f"filename*=UTF-8''{quote(NAME)}",
        f"filename=\"K_tzchen __.mp4\"; filename*=utf-8'de'{quote(NAME)}",
    ],
)
def test_a_name_beyond_ascii_is_kept(tmp_path: Path, red: Path, said: str) -> None:
    world = World(tmp_path)
    head = HEAD.replace(b'filename="a.mp4"', said.encode())
    reply = world.client.post("/v1/files", headers=FORM, content=head + red.read_bytes() + b"\r\n--x--\r\n")
    assert reply.json()["filename"] == NAME
    content = world.client.get(f"/v1/files/{reply.json()['id']}/content")
    # As a browser reads it (RFC 6266), by the standard library.
    told = Message()
    told["Content-Disposition"] = content.headers["content-disposition"]
    assert (told.get_content_disposition(), told.get_filename()) == ("inline", NAME)


def test_a_frame_that_cannot_be_read_names_the_video_and_not_its_path(world: World) -> None:
    video = world.state.videos.get(world.video("grey"))
    whole = video.path.read_bytes()
    try:
        # Of the size and the time that it had, so that it counts as the same; its pictures are gone.
        video.path.write_bytes(whole[:48] + b"\0" * (len(whole) - 48))
        os.utime(video.path, ns=(video.modified, video.modified))
        reply = world.client.get(f"/v1/files/{video.id}/frame?time=1")
    finally:
        video.path.write_bytes(whole)
        os.utime(video.path, ns=(video.modified, video.modified))
    assert reply.status_code == 400
    assert reply.json()["error"]["message"].startswith("grey.mp4: ")
    assert str(world.folder) not in reply.text


@pytest.mark.parametrize(
    ("headers", "body", "status", "says"),
    [
        (FORM, HEAD + b"not a video" + b"\r\n--x--\r\n", 400, "a.mp4: FFmpeg cannot read it"),
        (FORM, HEAD + b"\r\n--x--\r\n", 400, "or an empty one; send the file there"),
        (
            FORM,
            HEAD.replace(b'"file"', b'"video"') + b"x\r\n--x--\r\n",
            400,
            "field 'file' of the form has no file",
        ),
        (FORM, HEAD + b"cut off", 400, "was cut off"),
        (FORM, HEAD + b"\0" * 300_000 + b"\r\n--x--\r\n", 413, "larger than 200,000 bytes"),
        (FORM, b"no form", 400, "cannot be read"),
        (FORM, b"", 400, "was cut off"),
        ({"content-type": "application/json"}, b"{}", 415, "multipart/form-data"),
        ({"content-type": "multipart/form-data"}, b"{}", 400, "Missing boundary"),
        ({**FORM, "content-length": "99999999999"}, HEAD, 413, "larger than 200,000 bytes"),
        (FORM, HEAD.replace(b"a.mp4", b"../../../etc/passwd") + b"x\r\n--x--\r\n", 400, "passwd: FFmpeg"),
        (FORM, HEAD.replace(b"a.mp4", b"a\0\xff.mp4") + b"x\r\n--x--\r\n", 400, "FFmpeg cannot read"),
        (FORM, (b"--x\r\n" + b"A: " + b"b" * 10_000 + b"\r\n\r\n"), 400, "cannot be read"),
        (FORM, HEAD.replace(b'"file"; filename="a.mp4"', b'"a"') + b"b" * 300_000, 413, "larger than"),
        ({"content-type": f"multipart/form-data; boundary={'x' * 60_000}"}, HEAD, 400, "cannot be read"),
        ({**FORM, "content-length": "1e9"}, HEAD, 400, "must be a number of bytes"),
    ],
)
def test_a_hostile_upload_is_refused_in_one_line_and_leaves_nothing(
    world: World, headers: dict[str, str], body: bytes, status: int, says: str
) -> None:
    before = world.state.videos.all()
    reply = world.client.post("/v1/files", headers=headers, content=body)
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert says in error["message"]
    for bad in ("\n", str(world.folder)):
        assert bad not in error["message"]
    assert (error["type"], sorted(error)) == ("invalid_request_error", ["code", "message", "param", "type"])
    assert world.state.videos.all() == before
    assert not list(world.state.videos.incoming.iterdir())


def test_the_largest_video_is_taken_and_a_byte_more_is_not(world: World, red: Path) -> None:
    content = red.read_bytes()
    # A box "free" of MP4, which players pass over, up to the limit of this server.
    rest = 200_000 - len(content)
    whole = content + rest.to_bytes(4, "big") + b"free" + b"\0" * (rest - 8)
    assert world.client.post("/v1/files", files={"file": ("a.mp4", whole)}).json()["bytes"] == 200_000
    more = world.client.post("/v1/files", files={"file": ("a.mp4", whole + b"\0")})
    assert (more.status_code, more.json()["error"]["code"]) == (413, "too_large")
    # Nor is one that does not say how long it is.
    parts = iter([HEAD, *[b"\0" * 10_000] * 1000])
    assert world.client.post("/v1/files", headers=FORM, content=parts).status_code == 413
    assert not list(world.state.videos.incoming.iterdir())


def test_uploads_at_the_same_time_share_the_room_that_there_is(tmp_path: Path, red: Path) -> None:
    content = red.read_bytes()
    videos = [content + (16).to_bytes(4, "big") + b"free" + n.to_bytes(8, "big") for n in range(12)]
    # A form is a little longer than its video.
    full = World(tmp_path, store_bytes=3 * len(videos[0]) + 500)
    everybody = threading.Barrier(12)

    def form(video: bytes) -> Iterator[bytes]:
        yield HEAD + video[:100]
        yield video[100:] + b"\r\n--x--\r\n"

    def bring(video: bytes) -> httpx2.Response:
        headers = {**FORM, "content-length": str(len(HEAD + video) + 9)}
        everybody.wait(60)
        return full.client.post("/v1/files", headers=headers, content=form(video))

    with ThreadPoolExecutor(12) as threads:
        replies = list(threads.map(bring, videos))
    codes = [reply.status_code for reply in replies]
    assert set(codes) <= {200, 413}
    assert codes.count(200) == 3, "room is kept for those that came first"
    assert sum(video.bytes for video in full.state.videos.all()) <= full.state.limits.store_bytes
    for video in full.state.videos.all():
        text = b"1\n00:00:00,000 --> 00:00:01,000\nhello\n"
        beside = full.client.post(f"/v1/files/{video.id}/subtitles", files={"file": ("a.srt", text)})
        assert beside.status_code == 200, "not a video"
    assert not list(full.state.videos.incoming.iterdir())
    # What was kept is given back.
    for video in full.state.videos.all():
        full.client.delete(f"/v1/files/{video.id}")
    for video in videos[:3]:
        assert full.client.post("/v1/files", files={"file": ("a.mp4", video)}).status_code == 200
    refused = full.client.post("/v1/files", files={"file": ("a.mp4", videos[3])}).json()["error"]
    assert refused["code"] == "no_room"
    assert "larger than the 500 bytes that are left" in refused["message"]


def test_a_full_disk_refuses_an_upload_and_keeps_nothing_of_it(
    world: World, red: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(upload: UploadFile, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(UploadFile, "write", full)
        reply = world.client.post("/v1/files", files={"file": ("a.mp4", red.read_bytes())})
    assert (reply.status_code, reply.headers["retry-after"]) == (507, "30")
    assert reply.json()["error"]["code"] == "disk_full"
    assert not list(world.state.videos.incoming.iterdir())


def test_subtitles_and_removal(client: OpenAI, world: World) -> None:
    video = world.video("grey")
    text = b"1\n00:00:00,000 --> 00:00:01,000\nhello\n"
    reply = world.client.post(f"/v1/files/{video}/subtitles", files={"file": ("a.srt", text)})
    assert reply.json()["videopro"]["subtitles"] is True
    wrong = world.client.post(f"/v1/files/{video}/subtitles", files={"file": ("a.srt", b"\0\0\1")})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "no_subtitles")
    assert client.files.delete(video).deleted
    with pytest.raises(APIStatusError) as gone:
        client.files.retrieve(video)
    assert gone.value.status_code == 404
    assert "there is no video" in gone.value.message
    assert not (world.folder / "out" / "videos" / video).exists()


def test_the_operators_folders_over_http(world: World) -> None:
    make_video(world.folder / "videos" / "sub" / "beach.mp4", "green", seconds=1.0)
    listed = world.client.get("/v1/videopro/folders").json()["data"]
    assert [video["path"] for video in listed] == ["sub/beach.mp4"]
    video = world.client.post("/v1/videopro/videos", json={"file_id": "folder:sub/beach.mp4"}).json()
    assert (video["filename"], video["videopro"]["is_uploaded"]) == ("sub/beach.mp4", False)
    page = world.answered(world.ask(video["id"]))
    assert (page["final"]["letter"], page["video"]["path"]) == ("B", "sub/beach.mp4")
    assert str(world.folder) not in str(page)
    for path in ("../out/serve.lock", "/etc/passwd", "sub/../../x", "nothing.mp4"):
        reply = world.client.post("/v1/videopro/videos", json={"file_id": f"folder:{path}"})
        assert reply.status_code in (400, 404), reply.text
        assert json.dumps(str(world.folder))[1:-1] not in reply.text
