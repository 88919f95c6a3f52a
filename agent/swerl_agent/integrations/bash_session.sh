# Evaluated once by the interactive bash of a session. Every mark begins with $__swerl_mark and ends with \037: ">N" before
# the output of command N, "!" after the message of bash on a syntax error, "?CODE" as prompt, "=PID" at the start.
unset -v SWERL_SETUP
set +o history
__swerl_mark=$'\036'"$SWERL_MARK"
unset -v SWERL_MARK

__swerl_take() { # $1 number, $2 text: store the text to be evaluated, nothing on a syntax error; $? is unchanged
  local status=${__swerl_code:-$?} glob=+O
  unset -v __swerl_code
  case $- in *e*) status=0 ;; esac
  case :$BASHOPTS: in *:extglob:*) glob=-O ;; esac
  builtin printf '%s>%s\037' "$__swerl_mark" "$1"
  if __swerl_text=$(BASH_ENV= "$BASH" "$glob" extglob -n <<<"$2" 2>&1); then
    __swerl_text=$2
  else
    builtin printf '%s%s!\037' "$__swerl_text" "$__swerl_mark"
    __swerl_text=
  fi
  return "$status"
} 2>/dev/null

__swerl_prompt() { # overrides a prompt that a command or a startup file has set
  unset -v PROMPT_COMMAND
  PS1=$__swerl_mark'?${__swerl_code:-$?}'$'\037' PS2= PS0=
  PROMPT_COMMAND='{ __swerl_prompt; } 2>/dev/null'
} 2>/dev/null

__swerl_prompt
builtin printf '%s=%s\037' "$__swerl_mark" "$$"
