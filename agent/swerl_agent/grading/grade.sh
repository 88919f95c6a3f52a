#!/bin/bash
# Process 1 of a grading Pod: verify the base, apply the patch, restore protected files, run the eval script, report.
#
# The nonce is made here and printed before anything of the patch exists, so that only this process can sign the report.
# The eval script runs without a capability that this process keeps, so that nothing of the patch, although it is root,
# may look into this process or into those that keep the output: they hold it in files without a name, behind pipes.
# Once the patch's code has run, this process starts no program any more, and kills everything before it reports.
#
# Arguments: base commit, work tree, seconds for the eval script, pytest sessions to witness, payload folder (files cut
# into parts <name>.NNN, and the witness under witness/).
set -u
read -r nonce < /proc/sys/kernel/random/uuid
printf 'swerl-grading %s\n' "$nonce"

base=$1 tree=$2 limit=$3 sessions=$4 payload=$5
scratch=$(mktemp -d)
began=0 ended=0 start=${EPOCHREALTIME/,/.}
for name in eval.sh patch.diff protected exempt named; do cat "$payload/$name".* > "$scratch/$name"; done
mapfile -t globs < <(grep -v '[()|]' "$scratch/protected")
mapfile -t odd < <(grep '[()|]' "$scratch/protected")
printf -v any '|%s' "${globs[@]}"
any="@(${any#|})" # one pattern: a work tree may hold tens of thousands of files that git does not know
mapfile -t exempt < "$scratch/exempt"
mapfile -d '' -t named < "$scratch/named"

git=(git --literal-pathspecs -C "$tree" -c safe.directory='*' -c core.hooksPath=/dev/null -c core.quotePath=false)
repo() { "${git[@]}" "$@"; }

note() { printf 'swerl-grading %s note %q\n' "$nonce" "$1"; }

# Become a keeper's last program, after telling that it and those before it in its pipeline are there.
settled() { echo >&"$there"; exec "$@" {there}>&-; }

# The processes that keep the output (its first and its last part, and its length) and the witness's record; `done`
# ends when they have.
keep() {
  local part
  mkdir "$scratch/witness"
  mkfifo "$scratch/output" "$scratch/there" "$scratch/witness/record" "$scratch/witness/key"
  for part in head tail test_record; do : > "$scratch/$part"; done
  exec {head_in}> "$scratch/head" {tail_in}> "$scratch/tail" {test_record_in}> "$scratch/test_record"
  exec {head}< "$scratch/head" {tail}< "$scratch/tail" {test_record}< "$scratch/test_record"
  # Both ends of the record are open before its keeper starts: it would wait for a writer that may be gone by then.
  exec {record}<> "$scratch/witness/record"
  exec {heard}< "$scratch/witness/record"
  exec {there}<> "$scratch/there"
  exec {done}< <(
    trap '' PIPE
    exec {record}>&-
    { head -c 16777216 <&"$heard" | settled base64 -w 8000 >&"$test_record_in"; } &
    tee >(head -c 8388608 | gzip -1 | settled base64 -w 8000 >&"$head_in") \
      >(tail -c 25165824 | gzip -1 | settled base64 -w 8000 >&"$tail_in") < "$scratch/output" 2> /dev/null | settled wc -c
  )
  exec {output}> "$scratch/output"
  exec {head_in}>&- {tail_in}>&- {test_record_in}>&- {heard}<&-
  rm "$scratch/output" "$scratch/there" "$scratch/head" "$scratch/tail" "$scratch/test_record"
}

# Kill all but this process and the keepers, until nothing is left to kill.
declare -A keepers=()
kill_the_rest() {
  [ $$ = 1 ] || { kill "$@" 2> /dev/null; return; }
  local round path pid left never
  exec {never}<> <(:)
  for ((round = 0; round < 200; round++)); do
    left=
    for path in /proc/[0-9]*; do
      pid=${path##*/}
      [[ -n ${keepers[$pid]+x} ]] || { kill -9 "$pid" 2> /dev/null && left=1; }
    done
    [ -z "$left" ] && return
    read -rt 0.01 -u "$never"
  done
}

section() { # name, file descriptor
  local lines
  printf 'swerl-grading %s %s\n' "$nonce" "$1"
  mapfile -t lines <&"$2"
  ((${#lines[@]} == 0)) || printf '%s\n' "${lines[@]}"
}

finish() { # stage, exit code
  local total=0 key
  exec {output}>&- {record}>&-
  read -rt 60 total <&"$done"
  read -rt 60 <&"$done"
  total=$((total + 0))
  section head "$head"
  ((total <= 8388608)) || section tail "$tail"
  for key in "${keys[@]}"; do printf 'swerl-grading %s key %s\n' "$nonce" "$key"; done
  section test_record "$test_record"
  printf 'swerl-grading %s end stage=%s exit=%s began=%s ended=%s total=%s\n' \
    "$nonce" "$1" "$2" "${began/,/.}" "${ended/,/.}" "$total"
  exit 0
}

# What the repository holds that is later than HEAD goes, in refs, logs and objects: the fix may be there.
scrub_history() {
  local outcome
  outcome=$(timeout 120 bash "$payload/scrub_history.sh.000" "$tree" "$base" 2>> "$scratch/git") ||
    outcome="failed: it took more than 120 s"
  printf 'swerl-grading %s scrubbed %s\n' "$nonce" "$outcome"
}

protected() { # path
  local glob found=
  # shellcheck disable=SC2053
  [[ $1 == $any ]] && found=1
  # shellcheck disable=SC2053
  for glob in "${odd[@]}"; do [[ $1 == $glob ]] && found=1; done
  [ -n "$found" ] && ! exempted "$1"
}

exempted() { # path
  local path
  for path in "${exempt[@]}"; do [[ $1 == "$path" ]] && return; done
  return 1
}

# Sets `place` to where a patch that names the path $1 writes: links to folders are followed.
declare -A real=()
locate() {
  local folder=./$1
  folder=${folder%/*}
  until [[ -d $folder ]]; do folder=${folder%/*}; done
  [[ -n ${real[$folder]+x} ]] || real[$folder]=$(cd -P -- "$folder" && pwd)
  place=./$1
  place=${real[$folder]}/${place#"$folder"/}
}

# Whether the path $1 lies in a folder that holds files, and none that git knows. What Python compiled is no file here.
declare -A foreign=()
in_a_foreign_folder() {
  local folder=. rest=$1
  while [[ $rest == */* ]]; do
    folder+=/${rest%%/*} rest=${rest#*/}
    [[ -d $folder ]] || return 1
    [[ -n ${foreign[$folder]+x} ]] ||
      foreign[$folder]=$(repo ls-files -- "$folder" | read -r || repo ls-files --others -- "$folder" | grep -vm 1 '\.pyc$')
    [ -z "${foreign[$folder]}" ] || return 0
  done
  return 1
}

state() { stat -c '%y %z %s %f' -- "$1" 2> /dev/null; } # of a file: another one when it was written to

# Files of the image that the patch names and git does not know (untracked, ignored, of a repository within) are kept
# aside, since nothing else could put them back. It may add none beside them either, where git knows no file.
declare -A was=()
barred=()
keep_the_unknown() {
  local path place within there=()
  local -A tracked=()
  for path in "${named[@]}"; do
    locate "$path"
    within=${place#"$root"/}
    ! exempted "$path" && ! exempted "$within" || continue
    if [[ -L $place || -e $place ]]; then
      [[ -d $place && ! -L $place ]] || there+=("$place")
    elif [[ $within == /* ]] || in_a_foreign_folder "$within"; then
      barred+=("$place")
    fi
  done
  for path in "${there[@]}"; do [[ $path != "$root"/* ]] || printf '%s\0' "${path#"$root"/}"; done |
    xargs -0 -r "${git[@]}" ls-files -z -- > "$scratch/tracked" || return
  while IFS= read -r -d '' path; do tracked[$root/$path]=1; done < "$scratch/tracked"
  for path in "${there[@]}"; do [[ -n ${tracked[$path]+x} ]] || was[$path]=$(state "$path"); done
  for path in "${!was[@]}"; do printf '%s\0' ".$path"; done |
    (cd / && xargs -0 -r cp -a --parents -t "$scratch/kept" --)
}

put_the_unknown_back() { # command that is told of each
  local path folder rest
  for path in "${!was[@]}"; do
    [ "$(state "$path")" != "${was[$path]}" ] || continue
    "$1" "restored ${path#"$root"/}"
    folder= rest=${path#/}
    while [[ $rest == */* ]]; do # a link in the place of a folder would lead elsewhere
      folder+=/${rest%%/*} rest=${rest#*/}
      [[ -d $folder && ! -L $folder ]] || rm -rf -- "$folder"
    done
    rm -rf -- "$path" && (cd "$scratch/kept" && cp -a --parents -t / -- ".$path") || return
    was[$path]=$(state "$path")
  done
  for path in "${barred[@]}"; do
    [[ -L $path || -e $path ]] || continue
    "$1" "removed ${path#"$root"/}"
    rm -rf -- "$path"
  done
}

clean() { # of what was not there before: images may hold untracked environments and tests
  local path
  while IFS= read -r -d '' path; do
    [[ -n ${untracked[$path]+x} ]] || rm -rf -- "$path"
  done < <(repo ls-files --others -z)
}

apply() {
  local ladder=("git apply --verbose" "git apply --verbose --3way" "git apply --verbose --reject"
    "patch --batch --forward --fuzz=5 --unified --no-backup-if-mismatch -p1 -i") rung
  [ -s "$scratch/patch.diff" ] || return 0
  for rung in "${ladder[@]}"; do
    # shellcheck disable=SC2086
    if [[ $rung == git* ]]; then repo ${rung#git } "$scratch/patch.diff"; else $rung "$scratch/patch.diff"; fi \
      >> "$scratch/git" 2>&1 && applied "${rung%% --unified*}" && return
    repo reset -q --hard HEAD
    clean
    put_the_unknown_back : 2>> "$scratch/git" || failed restore_failed 1
  done
  repo apply --check --reverse "$scratch/patch.diff" >> "$scratch/git" 2>&1 && applied before
}

applied() { printf 'swerl-grading %s applied %s\n' "$nonce" "$1"; }

put_back() { # path
  if repo cat-file -e "HEAD:$1"; then repo checkout -q HEAD -- "$1"; else repo rm -q -r -f --cached -- "$1" && rm -rf -- "$1"; fi
}

# What the patch changed and grading left: one path per line, after the time and the work tree.
facts() {
  printf '%s\n%s\n' "$start" "$tree"
  repo diff --name-only --no-renames HEAD
  while IFS= read -r -d '' path; do [[ -n ${untracked[$path]+x} ]] || printf '%s\n' "$path"; done \
    < <(repo ls-files --others -z)
}

failed() { # stage, exit code
  cat "$scratch/git" >&"$output"
  finish "$@"
}

keys=()
keep
: > "$scratch/git"
cd "$tree" || finish no_work_tree 1
repo merge-base --is-ancestor "$base" HEAD >> "$scratch/git" 2>&1 || failed wrong_base $?
scrub_history

root=$(pwd -P)
declare -A untracked=()
mkdir "$scratch/kept"
while IFS= read -r -d '' path; do untracked[$path]=1; done < <(repo ls-files --others -z)
keep_the_unknown 2>> "$scratch/git" || failed restore_failed 1

apply || failed apply_failed 1
put_the_unknown_back note 2>> "$scratch/git" || failed restore_failed 1

# All of the list before the first is put back: git diff itself writes the index, and locks it, after its last line.
repo diff --name-only --no-renames -z HEAD > "$scratch/changed" 2>> "$scratch/git" || failed restore_failed "$?"
mapfile -d '' -t changed < "$scratch/changed"
for path in "${changed[@]}"; do
  protected "$path" || continue
  note "restored $path"
  put_back "$path" >> "$scratch/git" 2>&1 || failed restore_failed 1
done
repo ls-files --others -z > "$scratch/added" 2>> "$scratch/git" || failed restore_failed "$?"
mapfile -d '' -t added < "$scratch/added"
for path in "${added[@]}"; do
  [[ -z ${untracked[$path]+x} ]] && protected "$path" || continue
  note "removed $path"
  rm -rf -- "$path"
done

for ((number = 0; number < sessions; number++)); do
  read -r "keys[$number]" < /proc/sys/kernel/random/uuid
done
facts > "$scratch/witness/facts"
shield=(setpriv --bounding-set=-setpcap)
"${shield[@]}" true 2> /dev/null || { shield=() && note unshielded; }
# On a busy node a keeper may begin later than all this; one that is not known by now would be killed with the rest.
for ((number = 0; number < 4; number++)); do read -rt 60 <&"$there" || note "a keeper of the output is missing"; done
exec {there}>&-
for path in /proc/[0-9]*; do keepers[${path##*/}]=1; done
(for number in "${!keys[@]}"; do echo "$number ${keys[$number]}" > "$scratch/witness/key"; done) {output}>&- &
giver=$!
export TZ=UTC PYTHONHASHSEED=0 SWERL_WITNESS_FOLDER=$scratch/witness SWERL_WITNESS_CODE=$payload/witness
began=$EPOCHREALTIME
(
  exec 1>&"$output" 2>&1 < /dev/null {output}>&- {record}>&- {done}<&- {head}<&- {tail}<&- {test_record}<&-
  exec timeout -k 5 "$limit" "${shield[@]}" bash "$scratch/eval.sh"
)
code=$?
ended=$EPOCHREALTIME
kill_the_rest "$giver"
finish eval "$code"
