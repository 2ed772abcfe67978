# A machine of its own, in new namespaces, with a stand-in for the world around it:
# `internet.sh PYTHON PROGRAM...` runs the program there. As root.
#
#   198.51.100.1    a public host: HTTP on port 80, and the name server
#   10.9.9.9        another host of a private network, reached the same way
#   198.51.100.2    this machine, on a public address; 10.8.8.8 is its private one
#
# A server of this machine listens on each of its addresses, and on an abstract socket.
set -eu
python=$1
held=$(mktemp -d)
printf 'nameserver 198.51.100.1\n' >"$held/resolv.conf"
mount --bind "$held/resolv.conf" "$(readlink -f /etc/resolv.conf)"
ip link set lo up
ip addr add 10.8.8.8/32 dev lo
unshare --net sleep 60 &
world=$!
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$held"' EXIT
until [ "$(readlink /proc/$world/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
ip link add out type veth peer name in netns $world
ip addr add 198.51.100.2/24 dev out
ip link set out up
ip route add default via 198.51.100.1
nsenter --net=/proc/$world/ns/net sh -c '
    ip link set lo up; ip link set in up
    ip addr add 198.51.100.1/24 dev in; ip addr add 10.9.9.9/32 dev in'
here=$(dirname "$0")
nsenter --net=/proc/$world/ns/net "$python" "$here/internet.py" world &
"$python" "$here/internet.py" machine &
until [ -e "/proc/$world" ] && nsenter --net=/proc/$world/ns/net grep -q ':0050 ' /proc/net/tcp \
    && grep -q ':1F90 ' /proc/net/tcp; do sleep 0.02; done
"$@"
