"""Films over HTTP: uploads at once and in parts, and what hostile clients send."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, OpenAI
from PIL import Image

from tests.support.fakes import make_video
from tests.support.serve_world import World

FORM = {"content-type": "multipart/form-data; boundary=x"}
HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n'


@pytest.fixture(scope="module")
def client(world: World) -> OpenAI:
    return OpenAI(base_url="http://localhost/v1", api_key="none", http_client=world.client, max_retries=0)


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "red.mp4"
    make_video(path, "red")
    return path


def test_the_client_uploads_at_once_and_in_parts(client: OpenAI, world: World, red: Path) -> None:
    film = client.files.create(file=red, purpose="user_data")
    content = red.read_bytes()
    assert film.id == "file-" + hashlib.sha256(content).hexdigest()[:32]
    assert (film.bytes, film.filename, film.object) == (len(content), "red.mp4", "file")
    about: dict[str, Any] = film.videopro  # type: ignore[attr-defined]
    assert about["duration"] == 2.0
    assert (about["width"], about["height"], about["subtitles"], about["problem"]) == (64, 48, False, None)
    upload = client.uploads.upload_file_chunked(
        file=red, mime_type="video/mp4", purpose="user_data", part_size=700
    )
    assert (upload.status, upload.file.id if upload.file else "") == ("completed", film.id)
    assert [each.id for each in client.files.list()] == [film.id]
    assert client.files.content(film.id).content == content
    assert not list(world.state.films.incoming.iterdir())


def test_a_film_is_sent_in_ranges_and_as_pictures(world: World) -> None:
    film = world.film("blue")
    part = world.client.get(f"/v1/files/{film}/content", headers={"Range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, b"ftyp")
    picture = world.client.get(f"/v1/files/{film}/frame?time=1&side=32")
    image = Image.open(io.BytesIO(picture.content))
    assert (image.format, image.size) == ("JPEG", (32, 24))
    red, green, blue = image.convert("RGB").getpixel((16, 12))  # type: ignore[misc]
    assert blue > 150 > max(red, green)
    crop = world.client.get(f"/v1/files/{film}/frame?time=1&side=32&box=0,0,0.5,0.5")
    assert Image.open(io.BytesIO(crop.content)).size == (32, 24)
    for wrong in ("time=-1", "time=nan", "time=1&side=99999", "time=1&box=1,2,3", "time=1&box=0.5,0,0.2,1"):
        reply = world.client.get(f"/v1/files/{film}/frame?{wrong}")
        assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error"), wrong


@pytest.mark.parametrize(
    ("headers", "body", "status", "says"),
    [
        (FORM, HEAD + b"not a film" + b"\r\n--x--\r\n", 400, "a.mp4: FFmpeg cannot read it"),
        (FORM, HEAD + b"\r\n--x--\r\n", 400, "or an empty one; send the film there"),
        (
            FORM,
            HEAD.replace(b'"file"', b'"film"') + b"x\r\n--x--\r\n",
            400,
            "no file in its field",
        ),
        (FORM, HEAD + b"cut off", 400, "was cut off"),
        (FORM, HEAD + b"\0" * 300_000 + b"\r\n--x--\r\n", 413, "larger than 200,000 bytes"),
        (FORM, b"no form", 400, "cannot be read"),
        (FORM, b"", 400, "was cut off"),
        ({"content-type": "application/json"}, b"{}", 415, "multipart/form-data"),
        ({"content-type": "multipart/form-data"}, b"{}", 415, "multipart/form-data"),
        ({**FORM, "content-length": "99999999999"}, HEAD, 413, "larger than 200,000 bytes"),
        (FORM, HEAD.replace(b"a.mp4", b"../../../etc/passwd") + b"x\r\n--x--\r\n", 400, "passwd: FFmpeg"),
        (FORM, HEAD.replace(b"a.mp4", b"a\0\xff.mp4") + b"x\r\n--x--\r\n", 400, "FFmpeg cannot read"),
        (FORM, (b"--x\r\n" + b"A: " + b"b" * 10_000 + b"\r\n\r\n"), 400, "cannot be read"),
        (FORM, b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"b" * 70_000, 413, "too long"),
    ],
)
def test_a_hostile_upload_is_refused_in_one_line_and_leaves_nothing(
    world: World, headers: dict[str, str], body: bytes, status: int, says: str
) -> None:
    before = world.state.films.all()
    reply = world.client.post("/v1/files", headers=headers, content=body)
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert says in error["message"]
    assert "\n" not in error["message"]
    assert str(world.folder) not in error["message"]
    assert (error["type"], sorted(error)) == ("invalid_request_error", ["code", "message", "param", "type"])
    assert world.state.films.all() == before
    assert not list(world.state.films.incoming.iterdir())


def test_a_body_that_is_longer_than_it_says_is_not_read_to_its_end(world: World) -> None:
    sent = []

    def endless() -> Iterator[bytes]:
        yield HEAD
        for number in range(1000):
            sent.append(number)
            yield b"\0" * 10_000

    reply = world.client.post("/v1/files", headers=FORM, content=endless())
    assert reply.status_code == 413
    assert not list(world.state.films.incoming.iterdir())


def lies(world: World) -> Iterator[tuple[str, dict[str, Any] | bytes, int, str]]:
    """Steps of uploads that do not go together; each with the status and the message that are due."""
    begun = world.client.post("/v1/uploads", json={"filename": "a.mp4", "bytes": 10}).json()["id"]
    part = HEAD.replace(b'"file"', b'"data"') + b"%s\r\n--x--\r\n"
    yield "/v1/uploads", {"filename": "a.mp4", "bytes": 10**12}, 413, "takes 1 to"
    yield "/v1/uploads", {"filename": "a.mp4", "bytes": 0}, 413, "takes 1 to"
    yield "/v1/uploads", {"filename": "a.mp4", "bytes": "many"}, 400, "bytes: "
    yield f"/v1/uploads/{begun}/parts", part % b"more than ten bytes", 413, "larger than 10 bytes"
    yield f"/v1/uploads/{begun}/complete", {"part_ids": ["part_none"]}, 400, "is no part of this upload"
    first = world.client.post(f"/v1/uploads/{begun}/parts", headers=FORM, content=part % b"12345").json()
    assert (first["object"], first["upload_id"]) == ("upload.part", begun)
    twice = {"part_ids": [first["id"], first["id"]]}
    yield f"/v1/uploads/{begun}/complete", twice, 400, "named twice"
    yield f"/v1/uploads/{begun}/complete", {"part_ids": [first["id"]]}, 400, "have 5 bytes together, and 10"
    yield f"/v1/uploads/{begun}/complete", {"part_ids": [first["id"]]}, 404, "no upload"
    yield "/v1/uploads/../../etc/cancel", {}, 404, "there is no"
    other = world.client.post("/v1/uploads", json={"filename": "a.mp4", "bytes": 5}).json()["id"]
    ids = [
        world.client.post(f"/v1/uploads/{other}/parts", headers=FORM, content=part % piece).json()["id"]
        for piece in (b"12", b"345")
    ]
    wrong_sum = {"part_ids": ids, "md5": hashlib.md5(b"34512").hexdigest()}
    yield f"/v1/uploads/{other}/complete", wrong_sum, 400, hashlib.md5(b"12345").hexdigest()


def test_uploads_that_lie_are_refused_and_leave_nothing(world: World) -> None:
    for path, body, status, says in lies(world):
        if isinstance(body, bytes):
            reply = world.client.post(path, headers=FORM, content=body)
        else:
            reply = world.client.post(path, json=body)
        assert (reply.status_code, says in reply.text) == (status, True), (path, body, reply.text)
    cancelled = world.client.post("/v1/uploads", json={"filename": "a.mp4", "bytes": 5}).json()["id"]
    assert world.client.post(f"/v1/uploads/{cancelled}/cancel").json()["status"] == "cancelled"
    assert not list(world.state.films.incoming.iterdir())


def test_subtitles_and_removal(client: OpenAI, world: World) -> None:
    film = world.film("grey")
    text = b"1\n00:00:00,000 --> 00:00:01,000\nhello\n"
    reply = world.client.post(f"/v1/files/{film}/subtitles", files={"file": ("a.srt", text)})
    assert reply.json()["videopro"]["subtitles"] is True
    wrong = world.client.post(f"/v1/files/{film}/subtitles", files={"file": ("a.srt", b"\0\0\1")})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "no_subtitles")
    assert client.files.delete(film).deleted
    with pytest.raises(APIStatusError) as gone:
        client.files.retrieve(film)
    assert gone.value.status_code == 404
    assert "there is no film" in gone.value.message
    assert not (world.folder / "out" / "films" / film).exists()


def test_the_operators_folders_over_http(world: World) -> None:
    make_video(world.folder / "films" / "sub" / "beach.mp4", "green", seconds=1.0)
    listed = world.client.get("/v1/videopro/folders").json()["data"]
    assert [film["path"] for film in listed] == ["sub/beach.mp4"]
    film = world.client.post("/v1/videopro/folders", json={"path": "sub/beach.mp4"}).json()
    assert (film["filename"], film["videopro"]["is_uploaded"]) == ("sub/beach.mp4", False)
    for path in ("../out/serve.lock", "/etc/passwd", "sub/../../x", "nothing.mp4"):
        reply = world.client.post("/v1/videopro/folders", json={"path": path})
        assert reply.status_code in (400, 404), reply.text
        assert json.dumps(str(world.folder))[1:-1] not in reply.text
