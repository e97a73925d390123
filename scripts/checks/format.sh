#!/usr/bin/env bash
# Every source is formatted as .clang-format says. To repair: clang-format-14 -i FILE
#
#   format.sh [ROOT]
set -euo pipefail
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
  -*)
    echo "format.sh: unknown option $1; see --help" >&2
    exit 2
    ;;
esac
cd "${1:-$(dirname "$0")/../..}"
mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' '*.c' | sort -u)
existing=()
for file in "${files[@]}"; do
  [[ ! -e $file ]] || existing+=("$file")
done
[[ ${#existing[@]} -gt 0 ]] || { echo "no sources found"; exit 1; }
clang-format-14 --dry-run -Werror "${existing[@]}"
echo "${#existing[@]} files are formatted"
