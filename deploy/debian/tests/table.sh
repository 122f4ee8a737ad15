# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A table, and a sampler that serves it at $address; sourced. Both end with the script.
cd "${AUTOPKGTEST_TMP:-$(mktemp -d)}" || exit 1
{
    echo x,label
    for ((row = 0; row < 100; row++)); do echo "$row,$((row % 2))"; done
} >table.csv

serve_table() {
    tombola-sampler serve --store csv:table.csv --listen 127.0.0.1:0 --seed 1 >sampler.out &
    sampler=$!
    trap 'kill "$sampler"' EXIT
    until address=$(sed -n 's/^listening on //p' sampler.out) && [[ -n $address ]]; do
        kill -0 "$sampler"
        sleep 0.1
    done
}
