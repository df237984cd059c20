#!/usr/bin/env bash
# Runs the demo with the first `tenure` and `python` on PATH, in a temporary folder that it deletes at the end.
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
