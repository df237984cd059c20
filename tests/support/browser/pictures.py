"""Pictures: screenshots as PNG files with a palette, a third of the size of those that the browser makes."""

import base64
import struct
import zlib

from playwright.sync_api import Page

# Takes a PNG as base64, and returns width, height, the palette, and one index per pixel, as base64 too. The colours
# that occur most come first; one that is very near to another is not taken, and the rest become their nearest colour.
_QUANTIZE = """async ([data]) => {
    const bytes = Uint8Array.from(atob(data), each => each.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
    const counts = new Map();
    for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
    const distance = (a, b) => (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2;
    const ordered = [...counts].sort((a, b) => b[1] - a[1]).map(([pixel]) => pixel);
    const palette = [];
    for (const near of [24, 0]) {
        for (const pixel of ordered) {
            if (palette.length === 256) break;
            const colour = parts(pixel);
            if (palette.every(each => distance(each, colour) > near)) palette.push(colour);
        }
    }
    const index = new Map(ordered.map(pixel => {
        const colour = parts(pixel);
        let best = 0;
        for (let at = 1; at < palette.length; at++)
            if (distance(palette[at], colour) < distance(palette[best], colour)) best = at;
        return [pixel, best];
    }));
    const indexes = Uint8Array.from(pixels, pixel => index.get(pixel));
    let text = "";
    for (let at = 0; at < indexes.length; at += 32768) text += String.fromCharCode(...indexes.subarray(at, at + 32768));
    return [image.width, image.height, palette, btoa(text)];
}"""


def small_png(page: Page, *, full: bool = False) -> bytes:
    """A picture of what the page shows; `full` includes what is below the window."""
    made = page.screenshot(full_page=full, animations="disabled", caret="hide", scale="css")
    canvas = page.context.new_page()  # the rules of the page itself allow no such script
    try:
        width, height, palette, indexes = canvas.evaluate(_QUANTIZE, [base64.b64encode(made).decode()])
    finally:
        canvas.close()
    rows = base64.b64decode(indexes)
    lines = b"".join(b"\0" + rows[at : at + width] for at in range(0, len(rows), width))
    return b"".join((
        b"\x89PNG\r\n\x1a\n",
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        _chunk(b"PLTE", bytes(part for colour in palette for part in colour)),
        _chunk(b"IDAT", zlib.compress(lines, 9)),
        _chunk(b"IEND", b""),
    ))  # fmt: skip


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
