#!/usr/bin/env bash
# Runs the demo with the first `tenure` and `python` on PATH, in a temporary folder that it deletes at the end.
# DEMO_PICTURE names a file for a picture of the dashboard, if Chromium is installed.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$(mktemp -d)"

clean_up() {
    jobs -p | xargs -r kill -KILL
    rm -rf "$folder"
}
trap clean_up EXIT

heading() {
    printf '\n== %s\n' "$1"
}

show() {
    local word line='$'
    for word in "$@"; do
        [[ $word =~ ^[[:alnum:]_./:-]+$ ]] && line+=" $word" || line+=" '$word'"
    done
    echo "$line"
    "$@"
}

work_until_done() {
    echo '$ tenure work default bulk'
    tenure work default bulk &
    local worker=$!
    python demo.py wait &
    wait $!
    kill -TERM "$worker"
    wait "$worker"
}

first_line_with() {
    until grep -m 1 -- "$1" "$2"; do
        kill -0 "$3" || { cat "$2" >&2; exit 1; }
        sleep 0.1
    done
}

# A picture of an address, with the Chromium of the machine or of `make servers`.
take_picture() {
    local chromium unpacked="$here/../../.servers/usr"
    chromium="$(command -v chromium || command -v google-chrome || true)"
    if [ -z "$chromium" ] && [ -x "$unpacked/lib/chromium/chromium" ]; then
        chromium="$unpacked/lib/chromium/chromium"
        LD_LIBRARY_PATH="$(printf '%s:' "$unpacked"/lib/*-linux-gnu "$unpacked"/lib/*-linux-gnu/{nss,pulseaudio})"
        export LD_LIBRARY_PATH
    fi
    if [ -n "$chromium" ] && TMPDIR="$folder" timeout 60 "$chromium" --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
        --user-data-dir="$folder/chromium" --window-size=1440,900 --virtual-time-budget=5000 --screenshot="$2" "$1" >/dev/null 2>&1 && [ -s "$2" ]; then
        echo "A picture of it is in $2"
    else
        echo "A picture of it, made earlier, is in $(realpath "$here/../../docs/images/dashboard/overview-light.png")"
    fi
}

start_dashboard() {
    (cd shop_day && exec tenure dashboard --port 0) > dashboard.txt 2>&1 &
    server=$!
    link="$(first_line_with '/link/' dashboard.txt "$server" | tr -d ' ')"
}

stop_dashboard() {
    kill -TERM "$server"
    wait "$server" || true
}

show_dashboard() {
    local server link
    start_dashboard
    if [ -n "${DEMO_PICTURE:-}" ]; then
        take_picture "$link" "$DEMO_PICTURE"
        stop_dashboard
        start_dashboard  # the link works once
    fi
    echo "The dashboard is at ${link%/link/*}/"
    if ! { [ -t 0 ] && [ -t 1 ]; }; then
        echo 'It ends now, because this is no terminal: run make demo in a terminal to open it.'
    else
        printf 'Open it with this link, which works once, within 5 minutes:\n  %s\n' "$link"
        read -r -t 600 -p 'Press Enter to end the demo (it ends by itself after 10 minutes). ' || true
    fi
    stop_dashboard
}

cp "$here/app.py" "$here/demo.py" "$folder"
mkdir "$folder/shop_day"
cp -r "$here/../shop" "$folder/shop_day/shop"
cd "$folder"
unset "${!TENURE_@}"
export TENURE_APP=app:app PYTHONDONTWRITEBYTECODE=1

heading 'Enqueue a job from the command line'
echo 'The queue is a SQLite file in an empty folder. You need no server and no configuration.'
show tenure enqueue greet --payload '{"name": "Ada"}' | tee shown
tail -n 1 shown > jobs.txt

heading 'Enqueue jobs from Python'
echo 'One job is delayed, one will fail twice, one cannot succeed yet, and 5000 jobs do nothing.'
show python demo.py enqueue

heading 'Run a worker'
echo 'The worker retries failed jobs and waits for delayed ones. A signal stops it when no job is left.'
work_until_done

heading 'List dead letters'
echo 'The job without retries left is a dead letter. It is stored with its error and its payload.'
show tenure dead list

heading 'Fix the cause and replay the job'
show touch paper
show tenure dead replay --all
work_until_done

heading 'Show what happened'
show tenure health
echo
python demo.py table

heading 'Look at a day of an online shop in the dashboard'
echo 'The data are made up: nothing runs. In your project, run tenure dashboard.'
export TENURE_APP=shop.app:app
(cd shop_day && show python -m shop)
(cd shop_day && exec python -m shop beat) 2>/dev/null &
workers=$!
echo '$ tenure dashboard'
show_dashboard
kill -TERM "$workers"
wait "$workers" || true
