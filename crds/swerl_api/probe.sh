# Prints one line for every address that answers. $1 whole seconds to wait at most, $3 the Pod's egress, then targets
# "tcp HOST PORT" or "dns HOST PORT". Adds what the Pod knows: the API server's service, its name servers unless its egress
# is internet, and on the port $2 of the API server the link-local addresses of its neighbours (the node), derived from
# their hardware addresses. Exit code 3: no program of the image can open a connection.
#
# Waits 20 times as long as a connection of the Pod to itself takes beside the others, at least 0.25 seconds: what can be
# reached answers in milliseconds, unless the node is busy, which delays that connection too.
seconds=$1 port=$2 egress=$3
shift 3
set -- "$@" "tcp 169.254.169.254 80"
[ -n "$KUBERNETES_SERVICE_HOST" ] && set -- "$@" "tcp $KUBERNETES_SERVICE_HOST ${KUBERNETES_SERVICE_PORT:-443}"
[ "$egress" = internet ] || while read -r key value rest; do
  [ "$key" = nameserver ] && set -- "$@" "tcp $value 53" "dns $value 53"
done </etc/resolv.conf

# Python tries all in one process, which counts the seconds from its own start: an interpreter may take long to start.
python_program='
import os, socket, sys, threading, time
from contextlib import suppress

def probe(seconds, kind, host, port):
    with suppress(OSError):
        if kind == "tcp":
            socket.create_connection((host, int(port)), seconds)
        else:
            peer = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
            name = b"".join(bytes([len(part)]) + part for part in b"kubernetes.default.svc.cluster.local".split(b"."))
            peer.sendto(b"\0\7\1\0\0\1\0\0\0\0\0\0" + name + b"\0\0\1\0\1", (host, int(port)))
            peer.settimeout(seconds)
            peer.recv(2)
        os.write(1, f"{kind} {host} {port}\n".encode())

def start_probes(seconds, targets):
    threads = [threading.Thread(target=probe, args=(seconds, *target), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    return threads

def link_local(address, device):
    a, b, c, d, e, f = address.split(":")
    return f"fe80::{int(a, 16) ^ 2:x}{b}:{c}ff:fe{d}:{e}{f}%{device}"

def wait_seconds(most):
    start = time.monotonic()
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", 1), most)
    return min(most, max(0.25, 20 * (time.monotonic() - start)))

most = float(sys.argv[1])
threads = start_probes(most, [target.split() for target in sys.argv[3:]])
seconds = wait_seconds(most)
end = time.monotonic() + seconds
time.sleep(0.3 * seconds)
with suppress(OSError), open("/proc/net/arp") as table:
    rows = [line.split() for line in table][1:]
    threads += start_probes(most, [("tcp", link_local(row[3], row[5]), sys.argv[2]) for row in rows])
for thread in threads:
    thread.join(max(0, end - time.monotonic()))
os._exit(0)'

# One datagram, for it has no newline; its reply also begins with S.
query='S\7\1\0\0\1\0\0\0\0\0\0\7cluster\5local\0\0\1\0\1'
tool=
if [ -n "$BASH_VERSION" ] && case $( (LC_ALL=C; exec 3<>/dev/tcp/127.0.0.1/1) 2>&1) in *refused*) ;; *) false ;; esac; then
  tool=bash
elif python3 -c 'import socket' 2>/dev/null; then
  python3 -I -S -c "$python_program" "$seconds" "$port" "$@" 2>/dev/null
  exit 0
elif command -v nc >/dev/null; then
  tool=nc
else
  exit 3
fi

probe() { # one target, in its own process, which never ends before the answer
  case $tool in
    bash)
      x=${1#dns}
      exec 3<>"/dev/${x:-udp}/$2/$3" || return
      [ "$1" = tcp ] || { printf "$query" >&3 && read -r -n 1 -t "$seconds" x <&3 && [ "$x" = S ]; } && echo "$@"
      ;;
    nc) # a connected nc would wait for data; each kind of nc has one of two options against it
      [ "$1" = tcp ] || return
      { nc -z -w 1 "$2" "$3" || nc -w 1 "$2" "$3" -e sh -c :; } </dev/null >/dev/null && echo "$@"
      ;;
  esac
}
pause() { sleep "$1" 2>/dev/null || sleep 1; }
kill_after() { # seconds, processes
  { pause "$1"; shift; kill -KILL "$@"; } >/dev/null 2>&1 &
  timers="$timers $!"
}
start_probe() { probe "$@" 2>/dev/null & pids="$pids $!"; }

centiseconds() { # sets now
  IFS=' .' read -r now x y </proc/uptime && now=$((now * 100 + 1$x - 100))
}
part() { printf %d.%02d $(($1 * wait / 1000)) $(($1 * wait / 10 % 100)); } # tenths of the time to wait, in seconds

timers= pids=
for target; do start_probe $target; done
wait=$((100 * seconds)) # in hundredths of a second
if centiseconds 2>/dev/null; then
  start=$now
  (probe tcp 127.0.0.1 1) >/dev/null 2>&1
  centiseconds
  own=$((20 * (now - start)))
  [ $own -ge 25 ] || own=25
  [ $own -ge $wait ] || wait=$own
fi
kill_after $(part 10) $pids
first_pids=$pids pids=
pause $(part 3) # the first connections have filled the ARP table by then
[ ! -r /proc/net/arp ] || while IFS=' :' read -r x x x a b c d e f x device; do
  case $a in [0-9a-f][0-9a-f]) ;; *) continue ;; esac
  start_probe tcp "fe80::$(printf %x $((0x$a ^ 2)))$b:${c}ff:fe$d:$e$f%$device" "$port"
done </proc/net/arp
[ -z "$pids" ] || kill_after $(part 7) $pids
wait $first_pids $pids 2>/dev/null
kill $timers 2>/dev/null
exit 0
