#!/usr/bin/env bash
# Shows Tenure at work with the `tenure` and the `python` that come first on PATH; leaves nothing behind.
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

cp "$here/app.py" "$here/demo.py" "$folder"
cd "$folder"
unset "${!TENURE_@}"
export TENURE_APP=app:app PYTHONDONTWRITEBYTECODE=1

heading 'A job from the command line'
echo 'The queue is a SQLite file in an empty folder; there is no server and nothing to configure.'
show tenure enqueue greet --payload '{"name": "Ada"}' | tee shown
tail -n 1 shown > jobs.txt

heading 'More jobs from Python'
echo 'One is delayed, one will fail twice, one cannot succeed yet, and thousands do nothing but count.'
show python demo.py enqueue

heading 'A worker'
echo 'It retries what fails, waits for what is delayed, and stops on a signal once nothing is left.'
work_until_done

heading 'A dead letter'
echo 'The job that ran out of retries is kept, with its error and its payload.'
show tenure dead list

heading 'Repair and replay'
show touch paper
show tenure dead replay --all
work_until_done

heading 'What happened'
show tenure health
echo
python demo.py table
