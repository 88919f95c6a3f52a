# Becomes user $sw_user (a name or a number) and then a shell with option $sw_option that executes $1; exit code 126 and
# a message when that is impossible; then nothing ran. The current user needs nothing; any other needs root, and setpriv,
# runuser or su.
sw_fail() { echo "cannot run as user $sw_user: $1" >&2; exit 126; }

sw_id= sw_group= sw_home=/ sw_login=
while IFS=: read -r sw_entry_name sw_ignored sw_entry_id sw_entry_group sw_ignored sw_entry_home sw_ignored; do
  case $sw_user in "$sw_entry_name" | "$sw_entry_id") ;; *) continue ;; esac
  sw_login=$sw_entry_name sw_id=$sw_entry_id sw_group=$sw_entry_group sw_home=$sw_entry_home
  [ "$sw_user" != "$sw_entry_name" ] || break # a name counts more than a number
done 2>/dev/null </etc/passwd
case $sw_user in
  '') sw_fail "a user has a name or a number" ;;
  "$sw_login") ;;
  *[!0-9]*) sw_fail "the sandbox has no such user" ;;
  *) sw_id=$sw_user sw_group=${sw_group:-$sw_user} ;;
esac

while read -r sw_ignored sw_current_id sw_rest; do
  [ "$sw_ignored" != Uid: ] || break
done </proc/self/status
export HOME="$sw_home" USER="${sw_login:-$sw_user}" LOGNAME="${sw_login:-$sw_user}"
[ "$sw_current_id" != "$sw_id" ] || exec $sw_shell $sw_option "$1"
[ "$sw_current_id" = 0 ] || sw_fail "the container runs as user $sw_current_id, and only root can change that"
# Else the command could not open /dev/stderr. In a subshell: a shell with a chown of its own would redirect itself.
(chown "$sw_id" "/proc/$$/fd/1" "/proc/$$/fd/2") 2>/dev/null

# setpriv becomes the shell; runuser and su, except busybox's, stay as its parent.
sw_groups=--clear-groups
[ -z "$sw_login" ] || sw_groups=--init-groups
set -- "$1" --reuid "$sw_id" --regid "$sw_group" $sw_groups
if (shift; setpriv "$@" $sw_shell -c :) 2>/dev/null; then
  sw_inner=$1
  shift
  exec setpriv "$@" $sw_shell $sw_option "$sw_inner"
fi
[ -n "$sw_login" ] || sw_fail "that needs setpriv, which the image does not have, or a user of /etc/passwd"
command -v runuser >/dev/null 2>&1 && exec runuser -u "$sw_login" -- $sw_shell $sw_option "$1"
command -v su >/dev/null 2>&1 || sw_fail "the image has neither setpriv nor runuser nor su"
export sw_inner="$1"
exec su -m -s "$(command -v sh)" -c "exec $sw_shell $sw_option \"\$sw_inner\"" "$sw_login"
