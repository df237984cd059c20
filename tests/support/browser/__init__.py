"""A real browser for tests and screenshots: Debian's Chromium, driven by Playwright, which downloads nothing."""
