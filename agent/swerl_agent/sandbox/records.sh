# Folders, records and outputs of the session that loop.sh runs, which is sent after this text.
sw_token=$2 sw_blocks=$3 sw_name=$4 sw_login=$5 sw_home=$PWD
sw_bases='/run /var/tmp /tmp /dev/shm'
sw_nl='
'
sw_common=' -~	
' # characters that `read` of a shell never changes

sw_find_folder() { # set sw_path to the session's folder with suffix $1; false if there is none
  for sw_base in $sw_bases; do
    sw_path=$sw_base/.swerl-$sw_token$1
    [ -d "$sw_path" ] && return
  done
  return 1
}

sw_make_folder() { # the same; if there is none, create it in the first of $2... that is writable
  sw_find_folder "$1" && return
  sw_suffix=$1
  shift
  for sw_base; do
    sw_path=$sw_base/.swerl-$sw_token$sw_suffix
    mkdir -m 700 "$sw_path" 2>/dev/null || [ -d "$sw_path" ] && return # control and runner may race
  done
  return 1
}

sw_make_folders() { # set sw_dir and sw_notes; create the folders if they were removed
  sw_make_folder '' $sw_bases || return
  sw_dir=$sw_path
  sw_make_folder .notes /dev/shm $sw_bases || return
  sw_notes=$sw_path
}

sw_in_use() { # whether folder $1 has a file: a loop writes there only after it has created both folders
  set -- "$1"/*
  [ -e "$1" ]
}

sw_ensure_folders() { [ -d "$sw_dir" ] && [ -d "$sw_notes" ] || sw_make_folders; }

sw_record() { # append line $2 to the record of command $1; false if there is no room
  printf '%s\n' "$2" >>"$sw_notes/$1" || printf '%s\n' "$2" >>"$sw_dir/$1"
} 2>/dev/null

sw_reply() { printf '%s %s\n' "$sw_token" "$1" >&2; }

sw_pause() { sleep "$1" 2>/dev/null || sleep 1; }

sw_load_record() { # load the record of command $1; empty values if unknown
  sw_loop= sw_pid= sw_command_slot= sw_rc= sw_size=
  for sw_file in "$sw_notes/$1" "$sw_dir/$1"; do
    [ -r "$sw_file" ] || continue
    while read -r sw_key sw_value; do
      case $sw_key in
        loop) sw_loop=$sw_value ;;
        pid) sw_pid=$sw_value ;;
        slot) sw_command_slot=$sw_value ;;
        size) sw_size=$sw_value ;;
        rc) sw_rc=$sw_value ;;
      esac
    done <"$sw_file"
  done
}

sw_alive() { # whether process $1 runs; a zombie does not: process 1 of an image may never reap it
  [ -n "$1" ] || return
  { read -r sw_line <"/proc/$1/stat"; } 2>/dev/null || return
  case ${sw_line##*) } in [ZX]*) return 1 ;; esac
}

sw_reserve() { # true for the only loop that may run command $1: exclusive creation of a file is atomic
  set -C
  { : >"$sw_notes/$1"; } 2>/dev/null || { set +C; return 1; }
  set +C
  sw_record "$1" "loop $$" || { rm -f "$sw_notes/$1" "$sw_dir/$1"; return 1; } # memory and disk are full
}

sw_head_bytes() { # the first $2 bytes of file $1, in large pieces: every hop to the client has a cost per piece
  [ "$2" -gt 0 ] || return 0
  sw_pieces=$(($2 / 65536)) sw_rest=$(($2 % 65536))
  {
    [ "$sw_pieces" -eq 0 ] || dd bs=65536 count="$sw_pieces" 2>/dev/null || head -c $((sw_pieces * 65536))
    [ "$sw_rest" -eq 0 ] || head -c "$sw_rest"
  } <"$1"
}

sw_tail_bytes() { # $3 bytes of file $1 from offset $2
  {
    dd bs=65536 skip=$(($2 / 65536)) 2>/dev/null || tail -c +$(($2 / 65536 * 65536 + 1))
  } <"$1" | tail -c +$(($2 % 65536 + 1)) | head -c "$3"
}

sw_bytes() { # the first and last bytes of file $1, which has $2 bytes
  if [ "$2" -le $((sw_head + sw_tail)) ]; then
    sw_head_bytes "$1" "$2"
  else
    sw_head_bytes "$1" "$sw_head"
    [ "$sw_tail" -eq 0 ] || sw_tail_bytes "$1" $(($2 - sw_tail)) "$sw_tail"
  fi
}

sw_position() { # set sw_size to the offset of file descriptor $1; empty if unknown
  sw_size=
  while read -r sw_key sw_value; do
    case $sw_key in pos:) sw_size=$sw_value ;; esac
  done <"/proc/self/fdinfo/$1"
} 2>/dev/null

sw_read_short() { # set sw_text to the output behind descriptor $1, without a process; false if long or special
  sw_text=
  sw_position "$1"
  [ "$sw_size" -le 2000 ] || return
  while IFS= read -r sw_line; do sw_text=$sw_text$sw_line$sw_nl; done <"/proc/self/fd/$1"
  sw_text=$sw_text$sw_line
  [ "${#sw_text}" -eq "$sw_size" ] || return # a NUL, or a writer with another descriptor
  case $sw_text in *[!$sw_common]*) return 1 ;; esac
} 2>/dev/null

sw_length() { # set sw_size to the length of the output behind descriptor $1: appending a newline moves the offset there
  [ -s "/proc/self/fd/$1" ] || { sw_size=0; return; }
  sw_position "$1"
  sw_before=$sw_size
  if [ -n "$sw_before" ] && echo >&"$1" && sw_position "$1" && [ "$sw_size" -gt "$sw_before" ]; then
    sw_size=$((sw_size - 1))
  else
    sw_size=$(wc -c <"/proc/self/fd/$1")
  fi
} 2>/dev/null

sw_measure() { # after command $1: set sw_out and sw_err to the lengths of its outputs, sw_outputs to both if short
  sw_out=0 sw_err=0 sw_outputs=
  [ -s /proc/self/fd/8 ] || [ -s /proc/self/fd/9 ] || return 0
  if sw_read_short 8 && sw_outputs=$sw_text && sw_read_short 9 &&
    [ $((sw_head + sw_tail)) -ge "${#sw_outputs}" ] && [ $((sw_head + sw_tail)) -ge "${#sw_text}" ]; then
    sw_out=${#sw_outputs} sw_err=${#sw_text}
    sw_outputs=$sw_outputs$sw_text
  else
    sw_outputs=
    sw_length 8
    sw_out=$sw_size
    sw_length 9
    sw_err=$sw_size
    sw_record "$1" "size $sw_out $sw_err"
  fi
} 2>/dev/null

sw_send_result() { # of command $1: exit code $2; outputs of sw_out and sw_err bytes in files $3, $4 or in sw_outputs
  sw_timeout=0
  [ -e "$sw_notes/$1.timeout" ] && sw_timeout=1
  printf '%s result %s %s %s %s %s %s %s\n%s' "$sw_token" "$1" "$2" "$sw_timeout" "$sw_out" "$sw_err" \
    "${sw_from:-0}" "${sw_until:-0}" "$sw_outputs"
  [ -z "$sw_outputs" ] || return 0
  sw_bytes "$3" "$sw_out"
  sw_bytes "$4" "$sw_err"
}

sw_delete_state() { # of slot $1 and command $2: a later request proves that the result has arrived
  case $2 in n-*) return ;; esac
  for sw_file in "$sw_dir/$1.out" "$sw_dir/$1.err"; do
    [ -s "$sw_file" ] && printf '' >"$sw_file"
  done
  sw_stale_files="$sw_stale_files $sw_dir/$2 $sw_dir/$2.* $sw_dir/$1.id $sw_dir/$1.out $sw_dir/$1.err"
  sw_stale_files="$sw_stale_files $sw_notes/$2 $sw_notes/$2.timeout $sw_notes/$1.id"
  [ ${#sw_stale_files} -gt 8000 ] && { rm -f $sw_stale_files; sw_stale_files=; }
} 2>/dev/null
