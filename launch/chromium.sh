#!/usr/bin/env bash
# Installs Chromium for the tests of the viewer's pages, if that needs no password. If it cannot, it says so and those
# tests are skipped. Never fails.
set -uo pipefail

for name in chromium chromium-browser google-chrome; do
    command -v "$name" > /dev/null && exit 0
done

if [ "$(id -u)" = 0 ]; then
    as=()
elif sudo -n true 2> /dev/null; then
    as=(sudo -n)
else
    echo "Chromium is not installed, and installing it needs root; skipping the tests of the viewer's pages" >&2
    exit 0
fi
if ! command -v apt-get > /dev/null; then
    echo "Chromium is not installed, and apt-get is missing; skipping the tests of the viewer's pages" >&2
    exit 0
fi
echo "Installing Chromium for the tests of the viewer's pages (once) ..."
install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium)
if ! "${as[@]}" "${install[@]}" > /dev/null 2>&1 &&
    ! { "${as[@]}" apt-get update -qq && "${as[@]}" "${install[@]}"; } > /dev/null 2>&1; then
    echo "Installing Chromium failed; skipping the tests of the viewer's pages" >&2
fi
exit 0
