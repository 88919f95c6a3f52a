# One session inside a Pod. Control reads requests and never blocks; the runner keeps one fresh shell ready, which takes
# the next request, becomes the command and is followed by another: what its start costs is paid while nobody waits.
# Needs a POSIX sh (dash, busybox ash, bash), cat, head, tail, wc, mkdir, rm, sleep; uses setsid, bash and dd if there.
# Arguments: $1 bytes of this text, $2 token of the session, $3 limit of one file that a command writes, in blocks of 512
# bytes, $4 name of this loop, which no other has, $5 "login" if commands begin in login shells, else empty. Requests,
# one line each, on standard input:
#   run ID SECONDS HEAD TAIL TEXT   execute the shell text; "claimed" if ID began before, "refused" if that cannot be
#                           noted; killed after SECONDS if this stream ends before the command does
#   ask ID HEAD TAIL        the result of ID, waiting for it; "unknown" if it never began
#   guard ID SECONDS        kill ID if it still runs then;    kill ID   kill it now
#   put NAME BYTES          append the BYTES that follow to file NAME;    count NAME   how many it has;    ping
# Results go to standard output: "TOKEN result ID EXIT LATE OUT ERR FROM UNTIL", then HEAD + TAIL bytes at most of both
# outputs; the node's uptime when a shell took the command and when that ended, 0 where nobody saw it.
# Every other answer goes to standard error. Until the command after the next one has run, or as long as they stand where
# ID begins with "n-" (its client named it, and another may ask for it), the session's two folders hold
#   on disk: S.out, S.err (a newline more than "size" says), ID.* (files put for it);
#   in memory where it can be, as a disk may take milliseconds to give a file a number that another had a moment ago:
#   ID ("loop N", "pid N", "slot S", "size OUT ERR" of outputs that are not short, "rc N", each as it becomes known),
#   ID.late (it was killed for its time), S.id (what the shell of slot S took), shell-N (the shell that loop N keeps
#   ready). What has no room in memory is noted on disk under the same name; but who creates ID in memory may run it.
sw_token=$2 sw_blocks=$3 sw_name=$4 sw_kind=$5 sw_home=$PWD
sw_places='/run /var/tmp /tmp /dev/shm'
sw_nl='
'
sw_common=' -~	
' # characters that a shell's `read` never changes

sw_kept() { # the session's folder with suffix $1 into sw_path; false where there is none
  for sw_base in $sw_places; do
    sw_path=$sw_base/.swerl-$sw_token$1
    [ -d "$sw_path" ] && return
  done
  return 1
}

sw_folder() { # the same, made in the first of the places $2... that takes it where there is none
  sw_kept "$1" && return
  sw_suffix=$1
  shift
  for sw_base; do
    sw_path=$sw_base/.swerl-$sw_token$sw_suffix
    mkdir -m 700 "$sw_path" 2>/dev/null || [ -d "$sw_path" ] && return # the other side may be quicker
  done
  return 1
}

sw_place() { # the session's folders; made again if somebody removed them
  sw_folder '' $sw_places || return
  sw_dir=$sw_path
  sw_folder .notes /dev/shm $sw_places || return
  sw_notes=$sw_path
}

sw_placed() { [ -d "$sw_dir" ] && [ -d "$sw_notes" ] || sw_place; }

sw_note() { # line $2 about command $1; false where there is no room for it
  printf '%s\n' "$2" >>"$sw_notes/$1" || printf '%s\n' "$2" >>"$sw_dir/$1"
} 2>/dev/null

sw_say() { printf '%s %s\n' "$sw_token" "$1" >&2; }

sw_nap() { sleep "$1" 2>/dev/null || sleep 1; }

sw_state() { # what is noted about command $1, empty where unknown
  sw_loop= sw_pid= sw_its= sw_rc= sw_size=
  for sw_file in "$sw_notes/$1" "$sw_dir/$1"; do
    [ -r "$sw_file" ] || continue
    while read -r sw_key sw_value; do
      case $sw_key in
        loop) sw_loop=$sw_value ;;
        pid) sw_pid=$sw_value ;;
        slot) sw_its=$sw_value ;;
        size) sw_size=$sw_value ;;
        rc) sw_rc=$sw_value ;;
      esac
    done <"$sw_file"
  done
}

sw_alive() { # whether process $1 runs; a zombie does not, and process 1 of an image may leave it one for ever
  [ -n "$1" ] || return
  { read -r sw_line <"/proc/$1/stat"; } 2>/dev/null || return
  case ${sw_line##*) } in [ZX]*) return 1 ;; esac
}

sw_claim() { # true for the one that may run command $1: creating a file exclusively is atomic
  set -C
  { : >"$sw_notes/$1"; } 2>/dev/null || { set +C; return 1; }
  set +C
  sw_note "$1" "loop $$" || { rm -f "$sw_notes/$1" "$sw_dir/$1"; return 1; } # memory and disk are full
}

sw_first() { # the first $2 bytes of file $1, in large pieces: each costs the same on all ways to the client
  [ "$2" -gt 0 ] || return 0
  sw_pieces=$(($2 / 65536)) sw_rest=$(($2 % 65536))
  {
    [ "$sw_pieces" -eq 0 ] || dd bs=65536 count="$sw_pieces" 2>/dev/null || head -c $((sw_pieces * 65536))
    [ "$sw_rest" -eq 0 ] || head -c "$sw_rest"
  } <"$1"
}

sw_last() { # the bytes of file $1 from $2 on, $3 of them
  {
    dd bs=65536 skip=$(($2 / 65536)) 2>/dev/null || tail -c +$(($2 / 65536 * 65536 + 1))
  } <"$1" | tail -c +$(($2 % 65536 + 1)) | head -c "$3"
}

sw_bytes() { # the first and last bytes of file $1, which has $2 that count
  if [ "$2" -le $((sw_head + sw_tail)) ]; then
    sw_first "$1" "$2"
  else
    sw_first "$1" "$sw_head"
    [ "$sw_tail" -eq 0 ] || sw_last "$1" $(($2 - sw_tail)) "$sw_tail"
  fi
}

sw_position() { # how far file descriptor $1 has come, into sw_size; empty where that is not told
  sw_size=
  while read -r sw_key sw_value; do
    case $sw_key in pos:) sw_size=$sw_value ;; esac
  done <"/proc/self/fdinfo/$1"
} 2>/dev/null

sw_read() { # the output behind file descriptor $1 into sw_text, without a process; false where it is not short and common
  sw_text=
  sw_position "$1"
  [ "$sw_size" -le 2000 ] || return
  while IFS= read -r sw_line; do sw_text=$sw_text$sw_line$sw_nl; done <"/proc/self/fd/$1"
  sw_text=$sw_text$sw_line
  [ "${#sw_text}" -eq "$sw_size" ] || return # a NUL, or written otherwise than through that descriptor
  case $sw_text in *[!$sw_common]*) return 1 ;; esac
} 2>/dev/null

sw_length() { # bytes behind file descriptor $1 into sw_size: where one more newline goes tells it without a process
  [ -s "/proc/self/fd/$1" ] || { sw_size=0; return; }
  sw_position "$1"
  sw_before=$sw_size
  if [ -n "$sw_before" ] && echo >&"$1" && sw_position "$1" && [ "$sw_size" -gt "$sw_before" ]; then
    sw_size=$((sw_size - 1))
  else
    sw_size=$(wc -c <"/proc/self/fd/$1")
  fi
} 2>/dev/null

sw_look() { # command $1 has ended: its outputs into sw_both if they are short, how long they are into sw_out and sw_err
  sw_out=0 sw_err=0 sw_both=
  [ -s /proc/self/fd/8 ] || [ -s /proc/self/fd/9 ] || return 0
  if sw_read 8 && sw_both=$sw_text && sw_read 9 &&
    [ $((sw_head + sw_tail)) -ge "${#sw_both}" ] && [ $((sw_head + sw_tail)) -ge "${#sw_text}" ]; then
    sw_out=${#sw_both} sw_err=${#sw_text}
    sw_both=$sw_both$sw_text
  else
    sw_both=
    sw_length 8
    sw_out=$sw_size
    sw_length 9
    sw_err=$sw_size
    sw_note "$1" "size $sw_out $sw_err"
  fi
} 2>/dev/null

sw_tell() { # result of command $1: exit code $2, outputs in files $3 and $4, or in sw_both, of sw_out and sw_err bytes
  sw_late=0
  [ -e "$sw_notes/$1.late" ] && sw_late=1
  printf '%s result %s %s %s %s %s %s %s\n%s' "$sw_token" "$1" "$2" "$sw_late" "$sw_out" "$sw_err" \
    "${sw_from:-0}" "${sw_until:-0}" "$sw_both"
  [ -z "$sw_both" ] || return 0
  sw_bytes "$3" "$sw_out"
  sw_bytes "$4" "$sw_err"
}

sw_forget() { # files of slot $1 and command $2: the result has arrived, for another request came after it
  case $2 in n-*) return ;; esac
  for sw_file in "$sw_dir/$1.out" "$sw_dir/$1.err"; do
    [ -s "$sw_file" ] && printf '' >"$sw_file"
  done
  sw_old="$sw_old $sw_dir/$2 $sw_dir/$2.* $sw_dir/$1.id $sw_dir/$1.out $sw_dir/$1.err"
  sw_old="$sw_old $sw_notes/$2 $sw_notes/$2.late $sw_notes/$1.id"
  [ ${#sw_old} -gt 8000 ] && { rm -f $sw_old; sw_old=; }
} 2>/dev/null

sw_shell_in_slot() { # a shell that takes one request and becomes it; the text sees none of these variables but sw_*
  # In the foreground: a background command would start with interrupts ignored.
  (
    cd -P /proc/self # named by number then; to read its `stat` takes a call for each byte
    echo "${PWD##*/}" >"$sw_notes/shell-$$"
    ulimit -Sf "$sw_blocks"
    cd "$sw_home" || cd /
    unset OLDPWD
    exec 2>&9 9>&-
    exec $sw_alone $sw_start "sw_dir=$sw_dir sw_notes=$sw_notes sw_shell=$sw_shell sw_nl='$sw_nl'
IFS=' ' read -r sw_id sw_head sw_tail sw_text <&7 || { echo end >&6; exit 0; }
[ -e \"\$sw_notes/\$sw_id.late\" ] && { echo skip >&6; exit 0; }
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
  sw_count=0 sw_vain=0 sw_last= sw_old=
  while :; do
    sw_count=$((sw_count + 1)) sw_slot=$sw_name-$sw_count
    sw_placed
    # Open from here on: what a command prints is read through these even if it removes the folder.
    command exec 6>>"$sw_notes/$sw_slot.id" 8>>"$sw_dir/$sw_slot.out" 9>>"$sw_dir/$sw_slot.err" || return
    # Room for what the shell will note there.
    { echo >&6; } 2>/dev/null || { command exec 6>>"$sw_dir/$sw_slot.id" && { echo >&6; } 2>/dev/null; }
    sw_shell_in_slot "$sw_slot"
    sw_rc=$? sw_id=
    read -r sw_until sw_rest 2>/dev/null </proc/uptime
    while read -r sw_id sw_head sw_tail sw_from && [ -z "$sw_id" ]; do :; done </proc/self/fd/6
    if [ -z "$sw_id" ]; then # killed, or its profile does not let it live: then that is what every command does
      sw_vain=$((sw_vain + 1))
      [ "$sw_vain" -gt 2 ] || continue
      IFS=' ' read -r sw_id sw_head sw_tail sw_text || return
      sw_note "$sw_id" "slot $sw_slot"
    fi
    case $sw_id in end) return ;; skip) continue ;; esac
    sw_look "$sw_id"
    sw_note "$sw_id" "rc $sw_rc" # not before: then somebody may ask for its outputs
    sw_tell "$sw_id" "$sw_rc" /proc/self/fd/8 /proc/self/fd/9
    [ -n "$sw_last" ] && sw_forget $sw_last
    sw_last="$sw_slot $sw_id" sw_vain=0
  done
}

sw_family() { # process $1 with its descendants and everything of its session, into sw_set
  sw_set=" $1 " sw_before=
  while [ "$sw_before" != "$sw_set" ]; do
    sw_before=$sw_set
    for sw_file in /proc/[0-9]*/stat; do
      { read -r sw_line <"$sw_file"; } 2>/dev/null || continue
      sw_process=${sw_line%% *}
      set -- "$1" ${sw_line##*) } # state, parent, group, session, ...
      case $sw_set in
        *" $sw_process "*) ;;
        *" $3 "*) sw_set="$sw_set$sw_process " ;;
        *) [ "$5" = "$1" ] && sw_set="$sw_set$sw_process " ;;
      esac
    done
  done
}

sw_strike() { # end the process group of the command sw_state told of, at one blow: a fork bomb outruns any list of it
  [ -z "$sw_alone" ] || [ -z "$sw_pid" ] || kill -KILL "-$sw_pid"
} 2>/dev/null

sw_slay() { # ask the processes of command $1 to end, then make them
  for sw_try in 1 2 3 4 5 6 7 8; do
    sw_state "$1"
    [ -n "$sw_pid$sw_rc" ] && break
    sw_nap 0.25
  done
  [ -z "$sw_rc" ] || return
  printf '' >"$sw_notes/$1.late"
  if [ -z "$sw_pid" ]; then # its shell hangs in the profile and will never take it
    read -r sw_pid <"$sw_notes/shell-$sw_loop" && { sw_family "$sw_pid"; kill -KILL $sw_set; }
    sw_note "$1" 'rc 137'
    sw_head=0 sw_tail=0 sw_out=0 sw_err=0 sw_both=
    sw_tell "$1" 137 /dev/null /dev/null >&3
    return
  fi
  trap sw_strike EXIT # also where there is no process left for the naps below
  sw_family "$sw_pid"
  kill -TERM $sw_set
  for sw_try in 1 2 3 4 5; do
    sw_nap 0.2
    sw_alive "$sw_pid" || break
  done
  sw_gone=$sw_set
  sw_family "$sw_pid"
  kill -KILL $sw_set $sw_gone
} 2>/dev/null

sw_guard() { # slay command $1 if it runs for $2 more seconds; ends by itself soon after the command
  sw_left=$2
  while sw_state "$1"; [ -n "$sw_loop" ] && [ -z "$sw_rc" ]; do
    [ "$sw_left" -gt 0 ] || { sw_slay "$1"; return; }
    sleep $((sw_left < 5 ? sw_left : 5))
    sw_left=$((sw_left - 5))
  done
}

sw_ask() { # what became of command $1
  sw_tries=0
  while :; do
    sw_state "$1"
    [ -n "$sw_rc" ] && break
    if ! sw_alive "${sw_pid:-$sw_loop}"; then # ended and about to be noted, or killed together with what would note it
      sw_tries=$((sw_tries + 1))
      [ "$sw_tries" -gt 10 ] && { sw_rc=137; break; }
    fi
    sw_nap 0.2
  done
  set -- "$1" "$sw_dir/$sw_its.out" "$sw_dir/$sw_its.err"
  [ -e "$2" ] && [ -e "$3" ] || { set -- "$1" /dev/null /dev/null; sw_size='0 0'; }
  [ -n "$sw_size" ] || sw_size="$(wc -c <"$2") $(wc -c <"$3")" # short, or nobody saw its end
  sw_out=${sw_size% *} sw_err=${sw_size#* } sw_both=
  sw_tell "$1" "$sw_rc" "$2" "$3"
}

sw_control() {
  sw_begun= # the last command, and its seconds
  trap '' PIPE # a stream that is cut must not end this shell, which would take the command along
  # A shell ends where it can make no process: then it takes along what left none.
  trap '[ -z "$sw_begun" ] || { sw_state "${sw_begun% *}"; [ -n "$sw_rc" ] || sw_strike; }' EXIT
  while read -r sw_verb sw_id sw_line; do
    case $sw_verb in
      run)
        sw_placed
        sw_limit=${sw_line%% *} sw_line=${sw_line#* }
        if sw_claim "$sw_id"; then
          sw_begun="$sw_id $sw_limit"
          printf '%s %s\n' "$sw_id" "$sw_line"
        elif [ -e "$sw_notes/$sw_id" ]; then
          sw_say "claimed $sw_id"
        else
          sw_say "refused $sw_id"
        fi
        ;;
      ping) sw_say pong ;;
      kill) sw_slay "$sw_id" >/dev/null & ;;
      guard) sw_guard "$sw_id" "$sw_line" >/dev/null & ;;
      ask)
        sw_head=${sw_line% *} sw_tail=${sw_line#* }
        if [ -e "$sw_notes/$sw_id" ]; then sw_ask "$sw_id" >&3 & else sw_say "unknown $sw_id"; fi
        ;;
      put)
        sw_placed
        head -c "$sw_line" >>"$sw_dir/$sw_id" || { sw_say "full $sw_id"; exit 1; }
        sw_say "put $sw_id"
        ;;
      count) sw_say "count $sw_id $(wc -c <"$sw_dir/$sw_id")" ;;
    esac
  done
  exec >&- # the runner ends with what it runs; its client may never ask for that
  [ -z "$sw_begun" ] || sw_guard $sw_begun
}

sw_shell=sh sw_alone=
command -v bash >/dev/null 2>&1 && sw_shell=bash
command -v setsid >/dev/null 2>&1 && sw_alone=setsid
sw_start='sh -c'
[ -z "$sw_kind" ] || sw_start="$sw_shell -lc"
sw_found=fresh
if sw_kept '' && sw_kept .notes; then
  sw_found=resumed
elif sw_kept '' || sw_kept .notes; then # a restart has taken the other, without which this one tells half the truth
  for sw_base in $sw_places; do rm -rf "$sw_base/.swerl-$sw_token" "$sw_base/.swerl-$sw_token.notes"; done
fi 2>/dev/null
if sw_place; then
  sw_say "hello $sw_found"
  { sw_control | sw_runner 3>&-; } 3>&1
else
  sw_say nowhere
fi
