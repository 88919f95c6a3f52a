#!/bin/bash
# Process 1 of a grading Pod: verify the base, apply the patch, restore protected files, run the eval script, report.
#
# The nonce is made here and printed before anything of the patch exists, so that only this process can sign the report.
# The eval script runs without a capability that this process keeps, so that nothing of the patch, although it is root,
# may look into this process or into those that keep the output: they hold it in files without a name, behind pipes.
# Once the patch's code has run, this process starts no program any more, and kills everything before it reports.
#
# Arguments: base commit, work tree, seconds for the eval script, pytest sessions to witness, payload folder (files cut
# into parts <name>.NNN, and the witness under witness/). SWERL_OVERLAY_*: lines of a path and a file's content (gzip,
# base64) that lies there while the tests run; in the environment, since only that of this process is closed to them.
set -u
overlay= await_probe=${SWERL_AWAIT_PROBE:-}
unset SWERL_AWAIT_PROBE
for name in "${!SWERL_OVERLAY_@}"; do
  overlay+=${!name}
  unset "$name"
done
read -r nonce < /proc/sys/kernel/random/uuid
printf 'swerl-grading %s\n' "$nonce"

base=$1 tree=$2 limit=$3 sessions=$4 payload=$5
scratch=$(mktemp -d)
began=0 ended=0 starts=0 prober= evaluation= start=${EPOCHREALTIME/,/.}
for name in eval.sh patch.diff tests.diff targets protected reserved exempt named created closed; do cat "$payload/$name".* > "$scratch/$name"; done
mapfile -t globs < <(grep -v '[()|]' "$scratch/protected")
mapfile -t odd < <(grep '[()|]' "$scratch/protected")
printf -v any '|%s' "${globs[@]}"
any="@(${any#|})" # one pattern: a work tree may hold tens of thousands of files that git does not know
mapfile -t exempt < "$scratch/exempt"
mapfile -d '' -t named < "$scratch/named"
mapfile -d '' -t created < "$scratch/created"

declare -A reserved=()
while read -r name; do reserved[$name]=1; done < "$scratch/reserved"

# No configuration but the repository's own, and nothing of that which names a program. What the image sets for git in
# its environment is for the eval script alone. Gits before 2.38 take safe.directory from files alone, those before 2.32
# find a file by HOME alone.
declare -A image_variables=()
for name in "${!GIT_@}" HOME XDG_CONFIG_HOME; do
  [[ -n ${!name+x} ]] || continue
  image_variables[$name]=${!name}
  unset "$name"
done
home=${image_variables[HOME]:-/root}
printf '[safe]\n\tdirectory = *\n' > "$scratch/.gitconfig"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=$scratch/.gitconfig HOME=$scratch GIT_ATTR_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
pinned=(git --literal-pathspecs -C "$tree" -c core.hooksPath=/dev/null -c core.quotePath=false
  -c core.fsmonitor=false -c core.attributesFile=/dev/null -c core.excludesFile=/dev/null -c diff.external= -c gc.auto=0)
git=("${pinned[@]}" --git-dir="$scratch/image" --work-tree="$tree")
images() { "${pinned[@]}" "$@"; } # git with the image's repository
repo() { "${git[@]}" "$@"; }      # with one of our own, whose HEAD is the image's tree as it was shipped

note() { printf 'swerl-grading %s note %q\n' "$nonce" "$1"; }

# Become a keeper's last program, after telling that it and those before it in its pipeline are there.
exec_keeper() { echo >&"$ready"; exec "$@" {ready}>&-; }

# The processes that keep the output (its first and its last part, and its length) and the witness's record; `done`
# ends when they have.
keep() {
  local part
  mkdir "$scratch/witness"
  mkfifo "$scratch/output" "$scratch/ready" "$scratch/witness/record" "$scratch/witness/gate" "$scratch/witness/opened"
  for ((part = 0; part < sessions; part++)); do mkfifo "$scratch/witness/key.$part"; done
  for part in head tail test_record; do : > "$scratch/$part"; done
  exec {head_in}> "$scratch/head" {tail_in}> "$scratch/tail" {test_record_in}> "$scratch/test_record"
  exec {head}< "$scratch/head" {tail}< "$scratch/tail" {test_record}< "$scratch/test_record"
  # Both ends of the record are open before its keeper starts: it would wait for a writer that may be gone by then.
  exec {record}<> "$scratch/witness/record"
  exec {record_reader}< "$scratch/witness/record"
  exec {ready}<> "$scratch/ready"
  exec {done}< <(
    trap '' PIPE
    exec {record}>&-
    { head -c 16777216 <&"$record_reader" | exec_keeper base64 -w 8000 >&"$test_record_in"; } &
    tee >(head -c 8388608 | gzip -1 | exec_keeper base64 -w 8000 >&"$head_in") \
      >(tail -c 25165824 | gzip -1 | exec_keeper base64 -w 8000 >&"$tail_in") < "$scratch/output" 2> /dev/null | exec_keeper wc -c
  )
  exec {output}> "$scratch/output"
  exec {head_in}>&- {tail_in}>&- {test_record_in}>&- {record_reader}<&-
  rm "$scratch/output" "$scratch/ready" "$scratch/head" "$scratch/tail" "$scratch/test_record"
}

# Kill every process for which a function says so, all but this one and the keepers, until none is left to kill.
declare -A keepers=()
exec {never}<> <(:) # nothing is ever read from it
kill_each() { # function of a process id
  [ $$ = 1 ] || return 0
  local round path pid left
  for ((round = 0; round < 200; round++)); do
    left=
    for path in /proc/[0-9]*; do
      pid=${path##*/}
      [[ -n ${keepers[$pid]+x} ]] || ! "$1" "$pid" || { kill -9 "$pid" && left=1; }
    done
    [ -z "$left" ] && return
    read -rt 0.01 -u "$never"
  done 2> /dev/null
}

# Whether neither the eval script nor the probe runs it, so that an installation step left it; such a one is reported.
is_leftover() {
  local parent=$1 line
  while [[ -n $parent && $parent != [01] && $parent != "$evaluation" && $parent != "$prober" ]]; do
    read -r line < "/proc/$parent/stat" || line=
    line=${line##*) } line=${line#* } parent=${line%% *}
  done
  [[ $parent == [01] ]] && read -r line < "/proc/$1/comm" && printf 'swerl-grading %s ended %q\n' "$nonce" "$line"
}

# Whether a child has not ended. `kill -0` is no test: it finds an ended child that bash has not collected, and once in many
# runs on a busy machine `read -t` leaves SIGCHLD blocked, so that bash never does.
is_running() { # process id
  local line
  read -r line 2> /dev/null < "/proc/$1/stat" && line=${line##*) } && [[ $line != [ZX]* ]]
}

# The script announces where its tests begin. Its installation steps have ended then: processes that they left are killed,
# start-up files that they left are reported, the keys are handed out, and the script continues. Code of the patch that announces it, too, makes the count exceed one.
# Code of the patch may stop `timeout`: this process, which it cannot stop, ends the script soon after its limit.
open_gate() {
  local number word=. deadline=$((SECONDS + limit + 15))
  while is_running "$evaluation" || { [ -n "$word" ] && ((starts < 100)); }; do # to the end of the pipe
    ((SECONDS < deadline)) || { kill -9 "$evaluation" 2> /dev/null; return; }
    word= # where time is up at the same moment, `read` fails but has read
    read -rt 0.05 -n 1 -u "$gate" word || [ -n "$word" ] || continue
    ((++starts > 1)) && continue
    kill_each is_leftover
    report_left
    for number in "${!keys[@]}"; do echo "$number ${keys[$number]}" >&"${pipes[number]}"; done
    echo >&"$opened"
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
  printf 'swerl-grading %s isolation %s\n' "$nonce" "$isolation"
  printf 'swerl-grading %s starts %s\n' "$nonce" "$starts"
  printf 'swerl-grading %s oom %s\n' "$nonce" "$(out_of_memory)"
  printf 'swerl-grading %s end stage=%s exit=%s began=%s ended=%s total=%s\n' \
    "$nonce" "$1" "$2" "${began/,/.}" "${ended/,/.}" "$total"
  exit 0
}

# Tries to reach what no grading Pod may reach, with no more rights than the tests, while the rest goes on.
isolation=unknown
start_probe() {
  local words
  mapfile -t words < "$scratch/closed"
  exec {probing}< <(
    ((${#words[@]})) || exit
    exec {output}>&- {record}>&- {done}<&- {head}<&- {tail}<&- {test_record}<&-
    exec "${shield[@]}" bash -c 'bash "$@"; echo "end $?"' probe "$payload/probe.sh.000" "${words[@]}" 2> /dev/null
  )
  prober=$!
}

read_probe() { # seconds to wait for its next line
  local line reached=
  while read -rt "$1" -u "$probing" line; do
    case $line in
      "end 0") isolation=${reached:-proved} && return ;;
      "end "*) isolation=${reached:-unproved} && return ;;
      *) reached="${reached:-reached}${reached:+,} $line" ;;
    esac
  done
  isolation=${reached:-$isolation}
}

out_of_memory() { # how many processes of the Pod the kernel killed for it
  local kind number file
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [[ -r $file ]] || continue
    while read -r kind number; do [[ $kind != oom_kill ]] || printf '%s' "$number"; done < "$file"
    return
  done
}

. "$payload/work_tree.sh.000"
. "$payload/survey.sh.000"

failed() { # stage, exit code
  cat "$scratch/git" >&"$output"
  finish "$@"
}

shield=(setpriv --bounding-set=-setpcap)
"${shield[@]}" true 2> /dev/null || { shield=() && note unshielded; }
keys=() pipes=()
keep
# On a busy node a keeper may begin later than all this; one that is not known by now would be killed with the rest.
for ((number = 0; number < 4; number++)); do read -rt 60 <&"$ready" || note "a keeper of the output is missing"; done
exec {ready}>&-
for path in /proc/[0-9]*; do keepers[${path##*/}]=1; done
start_probe
: > "$scratch/git"
cd "$tree" || finish no_work_tree 1
images merge-base --is-ancestor "$base" HEAD >> "$scratch/git" 2>&1 || failed wrong_base $?
scrub_history
report_test_files
take_baseline 2>> "$scratch/git" || failed restore_failed 1

root=$(pwd -P)
declare -A untracked=()
mkdir "$scratch/kept"
while IFS= read -r -d '' path; do untracked[$path]=1; done < <(repo ls-files --others -z)
preserve_untracked 2>> "$scratch/git" || failed restore_failed 1

reserve_plugins
before=$(git_state)
apply || failed apply_failed 1
[ "$before" = "$(git_state)" ] || failed git_changed 1
restore_untracked note 2>> "$scratch/git" || failed restore_failed 1

# All of the list before the first is put back: git diff itself writes the index, and locks it, after its last line.
repo diff --name-only --no-renames -z HEAD > "$scratch/changed" 2>> "$scratch/git" || failed restore_failed "$?"
mapfile -d '' -t changed < "$scratch/changed"
for path in "${changed[@]}"; do
  protected "$path" || compiled "$path" || continue
  note "restored $path"
  put_back "$path" >> "$scratch/git" 2>&1 || failed restore_failed 1
done
repo ls-files --others -z > "$scratch/added" 2>> "$scratch/git" || failed restore_failed "$?"
mapfile -d '' -t added < "$scratch/added"
for path in "${added[@]}"; do
  if compiled "$path"; then
    [[ $path == *__pycache__/* || -z ${untracked[$path]+x} ]] || continue
    [[ $path != *site-packages/* && $path != .venv/* && $path != .tox/* ]] || continue
    [[ -n ${untracked[$path]+x} ]] || note "removed $path"
  else
    [[ -z ${untracked[$path]+x} ]] && { protected "$path" || { shadows "$path" && ! exempted "$path"; }; } || continue
    note "removed $path"
  fi
  rm -rf -- "$path"
done

for ((number = 0; number < sessions; number++)); do
  read -r "keys[$number]" < /proc/sys/kernel/random/uuid
done
facts > "$scratch/witness/facts"
test_folders > "$scratch/witness/tests" 2>> "$scratch/git"
remove_compiled 2>> "$scratch/git" || failed restore_failed 1
place_overlay 2>> "$scratch/git" || failed restore_failed 1
[ -z "$await_probe" ] || read_probe 30
for number in "${!keys[@]}"; do # one pipe per session: what reads it has that session's key, and no other
  exec {pipe}<> "$scratch/witness/key.$number"
  pipes+=("$pipe")
done
exec {gate}<> "$scratch/witness/gate" {opened}<> "$scratch/witness/opened"
survey
for path in "${!found[@]}"; do surveyed[$path]=1; done
unset HOME GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL GIT_ATTR_NOSYSTEM GIT_TERMINAL_PROMPT
for name in "${!image_variables[@]}"; do export "$name=${image_variables[$name]}"; done
export TZ=UTC PYTHONHASHSEED=0 SWERL_WITNESS_FOLDER=$scratch/witness SWERL_WITNESS_CODE=$payload/witness
began=$EPOCHREALTIME
(
  exec 1>&"$output" 2>&1 < /dev/null {output}>&- {record}>&- {done}<&- {head}<&- {tail}<&- {test_record}<&-
  for pipe in "${pipes[@]}" "$probing" "$gate" "$opened"; do exec {pipe}<&-; done
  exec timeout -k 5 "$limit" "${shield[@]}" bash "$scratch/eval.sh"
) &
evaluation=$!
open_gate
wait "$evaluation"
code=$?
ended=$EPOCHREALTIME
[ "$isolation" != unknown ] || read_probe 0.01
kill_each true
finish eval "$code"
