# Sourced inside the virtual machine: RDMA devices that reach each other in pairs, and what the tests need to know.
#
# Soft-RoCE of this kernel receives only in the first network namespace, so both "hosts" live in it, told apart by
# TOMBOLO_HOST and a cluster file. Rules send every packet for the other end's address out through the own end of the
# pair, as between two machines; only what comes in through an interface is looked up as local.

# rail NUMBER: interfaces aN and bN, one pair of veth, with devices rxeaN and rxebN, addresses 10.77.N.1 and .2
rail() {
  local n=$1 a=a$1 b=b$1
  ip link add "$a" type veth peer name "$b"
  ip addr add "10.77.$n.1/24" dev "$a"
  ip addr add "10.77.$n.2/24" dev "$b"
  ip link set "$a" mtu 4200 up
  ip link set "$b" mtu 4200 up
  cross "$a" "10.77.$n.1" "$b" "10.77.$n.2" "$((100 + 2 * n))"
  rdma link add "rxe$a" type rxe netdev "$a"
  rdma link add "rxe$b" type rxe netdev "$b"
}

# ethernet: interfaces ea and eb, addresses 10.78.0.1 and .2, without RDMA
ethernet() {
  ip link add ea type veth peer name eb
  ip addr add 10.78.0.1/24 dev ea
  ip addr add 10.78.0.2/24 dev eb
  ip link set ea up
  ip link set eb up
  cross ea 10.78.0.1 eb 10.78.0.2 90
}

# cross INTERFACE ADDRESS INTERFACE ADDRESS TABLE
cross() {
  local a=$1 first=$2 b=$3 second=$4 table=$5 interface
  ip rule add pref 10 iif "$a" lookup local
  ip rule add pref 10 iif "$b" lookup local
  ip rule add pref 12 iif lo to "$second" lookup "$table"
  ip rule add pref 12 iif lo to "$first" lookup "$((table + 1))"
  for interface in "$a" "$b"; do
    echo 1 > "/proc/sys/net/ipv4/conf/$interface/accept_local"
    echo 0 > "/proc/sys/net/ipv4/conf/$interface/rp_filter"
    # An interface answers for its own address alone, or there would be a way from any rail to any other.
    echo 1 > "/proc/sys/net/ipv4/conf/$interface/arp_ignore"
  done
  point "$@"
}

# The part of cross that an interface forgets when it goes down.
point() {
  local a=$1 first=$2 b=$3 second=$4 table=$5
  ip route replace "$second" dev "$a" src "$first" table "$table"
  ip route replace "$first" dev "$b" src "$second" table "$((table + 1))"
  ip neigh replace "$second" lladdr "$(cat "/sys/class/net/$b/address")" dev "$a" nud permanent
  ip neigh replace "$first" lladdr "$(cat "/sys/class/net/$a/address")" dev "$b" nud permanent
}

rail_again() {
  point "a$1" "10.77.$1.1" "b$1" "10.77.$1.2" "$((100 + 2 * $1))"
}

network() {
  ip link set lo up
  echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
  ip rule add pref 20 lookup local
  ip rule del pref 0
  rail 0
  rail 1
  ethernet
  export TOMBOLO_TEST_RDMA="a0 rxea0 10.77.0.1, a1 rxea1 10.77.1.1 | b0 rxeb0 10.77.0.2, b1 rxeb1 10.77.1.2"
}
