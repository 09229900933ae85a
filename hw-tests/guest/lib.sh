# What scenarios are made of. Port eth0 is here, port eth1 is in the namespace B, and a cable is between
# them. (busybox prefers its own applets: programs that it has too are called by their paths.)
A=10.0.0.1
B=10.0.0.2

ip() { /bin/ip "$@"; }
ping() { /bin/ping "$@"; }
# A command on the other port's side.
peer() { /bin/ip netns exec B "$@"; }

ok() { echo "@@@ ok $*"; }
bad() { echo "@@@ bad $*"; }
# check WHAT COMMAND...: one check.
check() {
  what=$1
  shift
  if "$@" > /tmp/check.log 2>&1; then ok "$what"; else
    bad "$what: $* ($?)"
    tail -n 12 /tmp/check.log
  fi
}
# equal WHAT FOUND WANTED
equal() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: '$2', not '$3'"; fi; }
# more WHAT FOUND THAN
more() { if [ "${2:-0}" -gt "$3" ]; then ok "$1"; else bad "$1: '$2', not more than $3"; fi; }

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
  tries=$(($1 * 10))
  shift
  while ! "$@" > /dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
}

is_up() { [ "$(cat "/sys/class/net/$1/carrier" 2> /dev/null)" = 1 ]; }
is_down() { [ "$(cat "/sys/class/net/$1/carrier" 2> /dev/null)" = 0 ]; }
peer_is_up() { peer ethtool eth1 | grep -q 'detected: yes'; }
answers() { ping -c 1 -W 1 "$B"; }
there() { [ -e "/sys/class/net/$1" ]; }
# stat NAME [PORT]: a counter of ethtool -S.
stat() { ethtool -S "${2:-eth0}" | awk -v n="$1:" '$1 == n { print $2 }'; }
peer_stat() { peer ethtool -S eth1 | awk -v n="$1:" '$1 == n { print $2 }'; }

# The driver anew, on clean devices.
load() {
  modprobe ixgbe "$@" || return 1
  wait_for 30 there eth1
}
unload() {
  if [ -e /run/netns/B ]; then
    ip netns del B
    wait_for 5 there eth1
  fi
  rmmod ixgbe
}
# Addresses on both ports, and the link.
connect() {
  ip netns add B
  ip link set eth1 netns B
  ip addr add "$A/24" dev eth0
  ip link set eth0 up
  peer /bin/ip addr add "$B/24" dev eth1
  peer /bin/ip link set eth1 up
  peer /bin/ip link set lo up
  wait_for 20 is_up eth0 && wait_for 20 peer_is_up && wait_for 5 answers
}
size() { ls -l "$1" 2> /dev/null | awk '{ print $5 }'; }
# has BYTES FILE
has() { [ "$(size "$2")" = "$1" ]; }
# transfer KILOBYTES: from here to B by TCP; the contents are compared.
transfer() {
  bytes=$(($1 << 10))
  has "$bytes" /tmp/sent || dd if=/dev/urandom of=/tmp/sent bs=1024 count="$1" 2> /dev/null
  rm -f /tmp/got
  (sleep 80 | timeout 80 /bin/ip netns exec B nc -l -p 5001 > /tmp/got) &
  listener=$!
  sleep 0.3
  timeout 80 nc "$B" 5001 < /tmp/sent &
  sender=$!
  wait_for 75 has "$bytes" /tmp/got
  kill "$listener" "$sender" 2> /dev/null
  cmp /tmp/sent /tmp/got
}

prepare() {
  dmesg -c > /dev/null
  there eth0 && unload
  check "ixgbe loads" load
}
# Nothing in the kernel's log is a warning, but for what a scenario has put into `expected`.
finish() {
  dmesg -r > /tmp/dmesg
  grep -E '^<[0-4]>|Tx Unit Hang|WARNING|BUG:|Call Trace|DMAR: \[' /tmp/dmesg > /tmp/warnings
  if [ -n "$expected" ]; then
    grep -vE "$expected" /tmp/warnings > /tmp/rest
    mv /tmp/rest /tmp/warnings
  fi
  if [ -s /tmp/warnings ]; then bad "the kernel warns: $(head -n 3 /tmp/warnings | tr '\n' ' ')"; else ok "no warning"; fi
}
