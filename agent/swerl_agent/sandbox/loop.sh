# One session inside a Pod. The control part reads requests and never blocks. The runner keeps one fresh shell ready; that
# shell takes the next request and becomes the command. So the start of a shell costs time while no client waits.
# Needs a POSIX sh (dash, busybox ash, bash), cat, head, tail, wc, mkdir, rm, sleep; uses setsid, bash and dd if present.
# Arguments: $1 bytes of this text, $2 token of the session, $3 limit of one file that a command writes, in blocks of 512
# bytes, $4 unique name of this loop, $5 "login" if commands start in login shells, else empty. Requests, one line each,
# on standard input:
#   run ID SECONDS HEAD TAIL TEXT   execute the shell text; "exists" if ID began before, "refused" if ID cannot be
#                           recorded; killed after SECONDS if this stream ends before the command does
#   query ID HEAD TAIL      wait for the result of ID; "unknown" if it never began
#   watchdog ID SECONDS     kill ID if it still runs then;    kill ID   kill it now
#   put NAME BYTES          append the BYTES that follow to file NAME;    count NAME   its length;    ping
# Results go to standard output: "TOKEN result ID EXIT TIMEOUT OUT ERR FROM UNTIL", then at most HEAD + TAIL bytes of each
# output. FROM and UNTIL: the node's uptime when a shell took the command and when the command ended, 0 if unknown.
# All other replies go to standard error. The session has two folders. Their entries stay until the command after the
# next one has run. Entries of an ID that begins with "n-" stay for good: the caller gave that ID and may query it again.
#   on disk: S.out, S.err (a newline more than "size" says), ID.* (files uploaded for it);
#   in memory if possible, because a disk may take milliseconds to reuse the inode of a deleted file:
#   ID ("loop N", "pid N", "slot S", "size OUT ERR" of outputs that are not short, "rc N", each as it becomes known),
#   ID.timeout (it was killed at its timeout), S.id (what the shell of slot S took), shell-N (the ready shell of loop N).
#   A record that does not fit in memory goes to disk under the same name. Creating ID in memory reserves the command.

sw_shell_in_slot() { # a shell that takes one request and becomes the command, which sees only the sw_* set here
  # In the foreground: a background command starts with interrupts ignored.
  (
    cd -P /proc/self # then $PWD ends in the pid; reading `stat` takes one system call per byte
    echo "${PWD##*/}" >"$sw_notes/shell-$$"
    ulimit -Sf "$sw_blocks"
    cd "$sw_home" || cd /
    unset OLDPWD
    exec 2>&9 9>&-
    exec $sw_setsid $sw_start "sw_dir=$sw_dir sw_notes=$sw_notes sw_shell=$sw_shell sw_nl='$sw_nl'
IFS=' ' read -r sw_id sw_head sw_tail sw_text <&7 || { echo end >&6; exit 0; }
[ -e \"\$sw_notes/\$sw_id.timeout\" ] && { echo skip >&6; exit 0; }
read -r sw_from sw_rest 2>/dev/null </proc/uptime
echo \"\$sw_id \$sw_head \$sw_tail \$sw_from\" >&6 || exit 1
for sw_notes in \"\$sw_notes\" \"\$sw_dir\"; do
  { printf 'pid %s\nslot %s\n' \"\$\$\" $1 >>\"\$sw_notes/\$sw_id\"; } 2>/dev/null && break
done
exec 6>&- 7<&-
eval \"\$sw_text\""
  ) 7<&0 </dev/null >&8 2>/dev/null 8>&-
}

sw_runner() {
  sw_count=0 sw_failed=0 sw_last= sw_stale_files=
  while :; do
    sw_count=$((sw_count + 1)) sw_slot=$sw_name-$sw_count
    sw_ensure_folders
    # These stay open: outputs are read through them even if the command removes the folder.
    command exec 6>>"$sw_notes/$sw_slot.id" 8>>"$sw_dir/$sw_slot.out" 9>>"$sw_dir/$sw_slot.err" || return
    # Reserve room for what the shell will record there.
    { echo >&6; } 2>/dev/null || { command exec 6>>"$sw_dir/$sw_slot.id" && { echo >&6; } 2>/dev/null; }
    sw_shell_in_slot "$sw_slot"
    sw_rc=$? sw_id=
    read -r sw_until sw_rest 2>/dev/null </proc/uptime
    while read -r sw_id sw_head sw_tail sw_from && [ -z "$sw_id" ]; do :; done </proc/self/fd/6
    if [ -z "$sw_id" ]; then # killed, or its profile exits: then every command fails the same way
      sw_failed=$((sw_failed + 1))
      [ "$sw_failed" -gt 2 ] || continue
      IFS=' ' read -r sw_id sw_head sw_tail sw_text || return
      sw_record "$sw_id" "slot $sw_slot"
    fi
    case $sw_id in end) return ;; skip) continue ;; esac
    sw_measure "$sw_id"
    sw_record "$sw_id" "rc $sw_rc" # not earlier: from then on a query reads the outputs
    sw_send_result "$sw_id" "$sw_rc" /proc/self/fd/8 /proc/self/fd/9
    [ -n "$sw_last" ] && sw_delete_state $sw_last
    sw_last="$sw_slot $sw_id" sw_failed=0
  done
}

sw_find_processes() { # set sw_processes to process $1, its descendants and the processes of its session
  sw_processes=" $1 " sw_before=
  while [ "$sw_before" != "$sw_processes" ]; do
    sw_before=$sw_processes
    for sw_file in /proc/[0-9]*/stat; do
      { read -r sw_line <"$sw_file"; } 2>/dev/null || continue
      sw_candidate=${sw_line%% *}
      set -- "$1" ${sw_line##*) } # state, parent, group, session, ...
      case $sw_processes in
        *" $sw_candidate "*) ;;
        *" $3 "*) sw_processes="$sw_processes$sw_candidate " ;;
        *) [ "$5" = "$1" ] && sw_processes="$sw_processes$sw_candidate " ;;
      esac
    done
  done
}

sw_kill_group() { # kill the process group of the loaded record in one call: a fork bomb outruns any list
  [ -z "$sw_setsid" ] || [ -z "$sw_pid" ] || kill -KILL "-$sw_pid"
} 2>/dev/null

sw_kill() { # terminate the processes of command $1, then kill them
  for sw_try in 1 2 3 4 5 6 7 8; do
    sw_load_record "$1"
    [ -n "$sw_pid$sw_rc" ] && break
    sw_pause 0.25
  done
  [ -z "$sw_rc" ] || return
  printf '' >"$sw_notes/$1.timeout"
  if [ -z "$sw_pid" ]; then # its shell hangs in the login profile and will never take it
    read -r sw_pid <"$sw_notes/shell-$sw_loop" && { sw_find_processes "$sw_pid"; kill -KILL $sw_processes; }
    sw_record "$1" 'rc 137'
    sw_head=0 sw_tail=0 sw_out=0 sw_err=0 sw_outputs=
    sw_send_result "$1" 137 /dev/null /dev/null >&3
    return
  fi
  trap sw_kill_group EXIT # also if no process can be created for the pauses below
  sw_find_processes "$sw_pid"
  kill -TERM $sw_processes
  for sw_try in 1 2 3 4 5; do
    sw_pause 0.2
    sw_alive "$sw_pid" || break
  done
  sw_earlier=$sw_processes
  sw_find_processes "$sw_pid"
  kill -KILL $sw_processes $sw_earlier
} 2>/dev/null

sw_watchdog() { # kill command $1 if it still runs in $2 seconds; ends soon after the command
  sw_remaining=$2
  while sw_load_record "$1"; [ -n "$sw_loop" ] && [ -z "$sw_rc" ]; do
    [ "$sw_remaining" -gt 0 ] || { sw_kill "$1"; return; }
    sleep $((sw_remaining < 5 ? sw_remaining : 5))
    sw_remaining=$((sw_remaining - 5))
  done
}

sw_query() { # wait for the end of command $1 and send its result
  sw_retries=0
  while :; do
    sw_load_record "$1"
    [ -n "$sw_rc" ] && break
    if ! sw_alive "${sw_pid:-$sw_loop}"; then # ended and not recorded yet, or killed together with its runner
      sw_retries=$((sw_retries + 1))
      [ "$sw_retries" -gt 10 ] && { sw_rc=137; break; }
    fi
    sw_pause 0.2
  done
  set -- "$1" "$sw_dir/$sw_command_slot.out" "$sw_dir/$sw_command_slot.err"
  [ -e "$2" ] && [ -e "$3" ] || { set -- "$1" /dev/null /dev/null; sw_size='0 0'; }
  [ -n "$sw_size" ] || sw_size="$(wc -c <"$2") $(wc -c <"$3")" # short, or not measured at its end
  sw_out=${sw_size% *} sw_err=${sw_size#* } sw_outputs=
  sw_send_result "$1" "$sw_rc" "$2" "$3"
}

sw_control() {
  sw_current= # the last command and its timeout
  trap '' PIPE # a lost stream must not end this shell, and with it the command
  # A shell exits if it cannot fork: then it kills the command, which may have used up all processes.
  trap '[ -z "$sw_current" ] || { sw_load_record "${sw_current% *}"; [ -n "$sw_rc" ] || sw_kill_group; }' EXIT
  while read -r sw_verb sw_id sw_line; do
    case $sw_verb in
      run)
        sw_ensure_folders
        sw_seconds=${sw_line%% *} sw_line=${sw_line#* }
        if sw_reserve "$sw_id"; then
          sw_current="$sw_id $sw_seconds"
          printf '%s %s\n' "$sw_id" "$sw_line"
        elif [ -e "$sw_notes/$sw_id" ]; then
          sw_reply "exists $sw_id"
        else
          sw_reply "refused $sw_id"
        fi
        ;;
      ping) sw_reply pong ;;
      kill) sw_kill "$sw_id" >/dev/null & ;;
      watchdog) sw_watchdog "$sw_id" "$sw_line" >/dev/null & ;;
      query)
        sw_head=${sw_line% *} sw_tail=${sw_line#* }
        if [ -e "$sw_notes/$sw_id" ]; then sw_query "$sw_id" >&3 & else sw_reply "unknown $sw_id"; fi
        ;;
      put)
        sw_ensure_folders
        head -c "$sw_line" >>"$sw_dir/$sw_id" || { sw_reply "full $sw_id"; exit 1; }
        sw_reply "put $sw_id"
        ;;
      count) sw_reply "count $sw_id $(wc -c <"$sw_dir/$sw_id")" ;;
    esac
  done
  exec >&- # the runner ends after its command; a client may never query that
  [ -z "$sw_current" ] || sw_watchdog $sw_current
}

sw_shell=sh sw_setsid=
command -v bash >/dev/null 2>&1 && sw_shell=bash
command -v setsid >/dev/null 2>&1 && sw_setsid=setsid
sw_start='sh -c'
[ -z "$sw_login" ] || sw_start="$sw_shell -lc"
sw_found=fresh
# Half the state is left by a restart, or by a loop that is between creating the first folder and creating .notes.
if sw_find_folder .notes || { sw_find_folder '' && sw_in_use "$sw_path"; }; then
  if sw_find_folder .notes && sw_find_folder ''; then
    sw_found=resumed
  else
    for sw_base in $sw_bases; do rm -rf "$sw_base/.swerl-$sw_token" "$sw_base/.swerl-$sw_token.notes"; done
  fi
fi 2>/dev/null
if sw_make_folders; then
  sw_reply "hello $sw_found"
  { sw_control | sw_runner 3>&-; } 3>&1
else
  sw_reply nofolder
fi
