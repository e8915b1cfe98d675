#!/usr/bin/env python3
"""Opens each page of the site in Chromium, as wide as a desktop and as a phone.

    browser.py CHROMIUM FOLDER [--long] [--pictures=FOLDER]

A page fails if it is wider than the window, if an image is broken, or if the console has an error.
Pages that show a source file are opened with --long alone: they all look alike.
"""
import functools
import http.server
import pathlib
import sys
import threading

from playwright.sync_api import sync_playwright

PATIENCE_MS = 300000  # beside the tests, a browser may get little of the processors
WIDTHS = {"desktop": 1280, "phone": 390}

FAULTS = """() => {
    const faults = [];
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > room)
        faults.push(`${document.documentElement.scrollWidth} wide in a window of ${room}`);
    for (const image of document.images)
        if (!image.complete || image.naturalWidth === 0)
            faults.push(`broken image ${image.src}`);
    if (!document.querySelector('h1'))
        faults.push('no heading');
    return faults;
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(folder):
    """A server of the site, since a browser keeps files from reading each other."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def look_at(tab, address, picture):
    noted = []
    tab.on("console", lambda message: message.type == "error" and noted.append(message.text))
    tab.on("pageerror", lambda error: noted.append(str(error)))
    tab.on("requestfailed", lambda request: noted.append(f"not loaded: {request.url}"))
    tab.goto(address, wait_until="load")
    faults = tab.evaluate(FAULTS)
    if picture:
        tab.screenshot(path=picture)
    return noted + faults


def pages_of(folder, is_long):
    pages = [path.relative_to(folder) for path in sorted(folder.rglob("*.html"))]
    pages = [page for page in pages if page.name not in ("404.html", "search.html")]
    return [page for page in pages if is_long or page.suffixes == [".html"]]


def main(chromium, folder, *options):
    folder = pathlib.Path(folder)
    pages = pages_of(folder, "--long" in options)
    pictures = [option.partition("=")[2] for option in options if "--pictures=" in option]
    address = serve(folder)
    n_faults = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"], timeout=PATIENCE_MS
        )
        for width_name, width in WIDTHS.items():
            context = browser.new_context(viewport={"width": width, "height": 800})
            context.set_default_timeout(PATIENCE_MS)
            for page in pages:
                tab = context.new_page()
                name = f"{'-'.join(page.with_suffix('').parts)}-{width_name}.png"
                picture = pathlib.Path(pictures[0]) / name if pictures else None
                for fault in look_at(tab, f"{address}/{page}", picture):
                    print(f"{page}, {width_name}: {fault}")
                    n_faults += 1
                tab.close()
        browser.close()
    print(f"{len(pages)} pages, {n_faults} faults")
    return 1 if n_faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
