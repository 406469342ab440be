#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Self test of rcpeer: a requester and a responder with a router between them, in namespaces of
# their own. Needs root, jq, tcpdump and scapy. RCPEER names the program (default build/lab/rcpeer).
set -euo pipefail

cd "$(dirname "$0")/../.."
rcpeer=$(realpath "${RCPEER:-build/lab/rcpeer}")
python=${PYTHON:-/usr/bin/python3}
a=rcp$$a r=rcp$$r b=rcp$$b
work=$(mktemp -d)
passed=0 failed=0

clean_up()
{
	local jobs_left ns

	jobs_left=$(jobs -p)
	[ -z "$jobs_left" ] || kill $jobs_left 2>/dev/null || true
	wait || true
	for ns in $a $r $b; do
		ip netns del "$ns" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap clean_up EXIT

# The CPU that dequeues a frame also receives it from a veth: one queue for all, or frames overtake.
receive_on_one_cpu()
{
	ip netns exec "$1" sh -c "echo 1 > /sys/class/net/$2/queues/rx-0/rps_cpus"
}

build_network()
{
	local ns

	for ns in $a $r $b; do
		ip netns add "$ns"
		ip -n "$ns" link set lo up
	done
	ip -n $a link add v0 type veth peer name va netns $r
	ip -n $b link add v0 type veth peer name vb netns $r
	ip -n $a addr add 10.9.1.1/24 dev v0
	ip -n $b addr add 10.9.2.1/24 dev v0
	ip -n $r addr add 10.9.1.254/24 dev va
	ip -n $r addr add 10.9.2.254/24 dev vb
	ip -n $a addr add fd09:1::1/64 dev v0 nodad
	ip -n $b addr add fd09:2::1/64 dev v0 nodad
	ip -n $r addr add fd09:1::254/64 dev va nodad
	ip -n $r addr add fd09:2::254/64 dev vb nodad
	for ns in "$a v0" "$b v0" "$r va" "$r vb"; do
		ip -n ${ns% *} link set ${ns#* } up
		receive_on_one_cpu $ns
	done
	ip -n $a route add default via 10.9.1.254
	ip -n $b route add default via 10.9.2.254
	ip -n $a route add default via fd09:1::254
	ip -n $b route add default via fd09:2::254
	ip netns exec $r sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
}

# set_mtu BYTES: of every link
set_mtu()
{
	local end

	for end in "$a v0" "$b v0" "$r va" "$r vb"; do
		ip -n ${end% *} link set ${end#* } mtu "$1"
	done
}

# limit_port NAMESPACE DEVICE RATE BYTES: the queue of what leaves there
limit_port()
{
	tc -n "$1" qdisc add dev "$2" root handle 1: htb default 1
	tc -n "$1" class add dev "$2" parent 1: classid 1:1 htb rate "$3" burst 3000 cburst 3000 \
		quantum 2000
	tc -n "$1" qdisc add dev "$2" parent 1:1 handle 10: bfifo limit "$4"
}

unlimit_port()
{
	tc -n "$1" qdisc del dev "$2" root
}

# limit_router RATE BYTES: the queue towards the responder
limit_router()
{
	limit_port $r vb "$@"
}

unlimit_router()
{
	unlimit_port $r vb
}

listener= listen_options=()

# What the listener is to be told stands in listen_options.
start_listener()
{
	ip netns exec $b "$rcpeer" listen -d v0 "${listen_options[@]}" >"$work/listen.json" &
	listener=$!
}

stop_listener()
{
	kill -TERM $listener
	wait $listener
}

# transfer_to ADDRESS SEND_OPTION...: reports in $work/send.json and $work/listen.json
transfer_to()
{
	start_listener
	ip netns exec $a "$rcpeer" send -d v0 -c "$@" >"$work/send.json"
	stop_listener
}

transfer()
{
	transfer_to 10.9.2.1 "$@"
}

# await WHAT COMMAND...: until it succeeds
await()
{
	local what=$1 deadline=$((SECONDS + 10))

	shift
	until "$@" >/dev/null 2>&1; do
		if [ $SECONDS -ge $deadline ]; then
			echo "not ok - waited in vain for $what"
			return 1
		fi
		sleep 0.02
	done
}

# expect BEHAVIOUR REPORT FILTER: the jq filter is true of the report
expect()
{
	if jq -e "$3" "$work/$2.json" >/dev/null; then
		passed=$((passed + 1))
		echo "ok - $1: $2: $3"
		return
	fi
	failed=$((failed + 1))
	echo "not ok - $1: $2: $3"
	jq -c 'del(.. | .goodput_timeline_bps?, .timeline?)' "$work/$2.json"
}

expect_status()
{
	local want=$1 got=0

	shift
	"$@" >/dev/null 2>&1 || got=$?
	if [ $got = "$want" ]; then
		passed=$((passed + 1))
		echo "ok - exit $got: $*"
	else
		failed=$((failed + 1))
		echo "not ok - exit $got, not $want: $*"
	fi
}

test_plain_path_loses_nothing()
{
	transfer --qps 3 --duration 1 --message 3001
	expect plain send '.frames_retransmitted == 0 and .frames_unacked == 0 and .icrc_bad == 0'
	expect plain send '[.qps[].state] == ["closed", "closed", "closed"]'
	expect plain send '.payload_bytes_acked == .messages * 3001 and .messages > 100'
	expect plain listen '[.flows[] | .gaps, .order_violations, .operation_errors, .frames_lost]
		| add == 0'
	expect plain listen '.flows | length == 3 and all(.state == "closed" and .ect == .frames)'
	expect plain listen "([.flows[].payload_bytes] | add) == $(jq .payload_bytes_acked \
		"$work/send.json")"
	expect plain listen '.socket_drops == 0 and .ip_checksum_bad == 0 and .icrc_bad == 0'
	expect plain listen 'all(.flows[]; (.timeline | add) == .payload_bytes)'
}

# 256 frames of window and a queue of 100 KB: the tail is dropped again and again.
test_full_queue_is_recovered_by_go_back_n()
{
	limit_router 50mbit 100000
	transfer --qps 2 --duration 3
	unlimit_router
	expect lossy send '.naks > 0 and .frames_retransmitted > 0 and .frames_unacked == 0'
	expect lossy send '.goodput_bps > 5e6 and .goodput_bps < 50e6'
	expect lossy listen '([.flows[].frames_lost] | add) > 0 and ([.flows[].gaps] | add) > 0'
	expect lossy listen '[.flows[].order_violations, .flows[].operation_errors] | add == 0'
	expect lossy listen "([.flows[].payload_bytes] | add) == $(jq .payload_bytes_acked \
		"$work/send.json")"
}

# 2 QPs of 277 KB in flight before 100 Mbit/s: 44 ms of queue must not look like loss.
test_deep_queue_fires_no_timer()
{
	limit_router 100mbit 1000000
	transfer --qps 2 --duration 2
	unlimit_router
	expect deep send '.timeouts == 0 and .frames_retransmitted == 0'
	expect deep send '.latency_us.p50 > 20000 and .goodput_bps > 80e6'
}

# Three CNPs for the first QP, one of them corrupted, and one for a QP that nobody has.
send_cnps()
{
	ip netns exec $r "$python" - <<-'PYTHON'
	from scapy.all import IP, UDP, Raw, raw, L3RawSocket
	from scapy.contrib.roce import cnp
	def frame(qpn, corrupt=False):
	    ip = IP(src="10.9.2.1", dst="10.9.1.1", tos=0xc0, flags="DF", id=0)
	    data = bytearray(raw(ip / UDP(sport=0xc123, dport=4791, chksum=0) / cnp(dqpn=qpn)))
	    data[-1] ^= corrupt
	    return IP(bytes(data))
	s = L3RawSocket()
	for f in frame(0x77), frame(0x77), frame(0x77, True), frame(0x7777):
	    s.send(f)
	PYTHON
}

frames_at_responder()
{
	ip netns exec $b cat /sys/class/net/v0/statistics/rx_packets
}

has_frames()
{
	[ "$(frames_at_responder)" -ge "$1" ]
}

# await_frames COUNT: until the responder's interface has seen that many
await_frames()
{
	await "$1 frames" has_frames "$1"
}

test_cnps_are_counted_per_qp()
{
	local before

	before=$(frames_at_responder)
	transfer --qps 1 --qpn-base 0x77 --duration 4 --offer 1 &
	await_frames $((before + 20))
	send_cnps
	wait $!
	expect cnp send '.qps[0].cnps == 3 and .qps[0].cnps_bad_icrc == 1 and .cnps_unknown_qp == 1'
	expect cnp send '.icrc_bad == 0 and .frames_retransmitted == 0'
}

test_signal_ends_the_sender_with_a_report()
{
	local before

	before=$(frames_at_responder)
	transfer --duration 60 --offer 10 &
	await_frames $((before + 200))
	kill -TERM "$(ip netns pids $a)"
	wait $!
	expect signal send '.messages > 0 and .frames_unacked == 0 and .seconds < 30'
	expect signal listen 'all(.flows[]; .state == "closed")'
}

# Prints the IPv6 frames of a capture in hex, or fails at the first whose header is not a NIC's.
read_ipv6_capture()
{
	"$python" - "$1" <<-'PYTHON'
	import sys
	from scapy.all import IPv6, UDP, raw, rdpcap
	labels = set()
	for frame in rdpcap(sys.argv[1]):
	    ip, udp = frame[IPv6], frame[UDP]
	    assert (ip.tc, ip.hlim, udp.chksum, udp.dport) == (26 << 2 | 2, 64, 0, 4791), frame
	    assert udp.len == ip.plen == len(ip) - 40, frame
	    labels.add(ip.fl)
	    print(raw(frame).hex())
	assert len(labels) == 1, labels
	PYTHON
}

judge_ipv6_capture()
{
	read_ipv6_capture "$work/v6.pcap" | tests/oracle/icrc.py >"$work/judged"
}

# The responder's frames have a router behind them: only the requester's are judged here.
test_ipv6_frames_are_those_of_a_nic()
{
	local tcpdump

	ip netns exec $r tcpdump -i va -s 0 -c 300 -w "$work/v6.pcap" \
		'ip6 src fd09:1::1 and udp port 4791' 2>"$work/tcpdump" &
	tcpdump=$!
	await "the capture" grep -q listening "$work/tcpdump"
	transfer_to fd09:2::1 --qps 2 --duration 0.8 --message 3001
	wait $tcpdump
	expect_status 0 judge_ipv6_capture
	expect_status 0 [ "$(grep -c ' ok$' "$work/judged")" = 300 ]
	expect ipv6 send '.server == "fd09:2::1" and .address == "fd09:1::1" and .messages > 100'
	expect ipv6 send '.frames_retransmitted == 0 and .frames_unacked == 0 and .icrc_bad == 0'
	expect ipv6 listen '.flows | length == 2 and all(.src == "fd09:1::1" and .dst == "fd09:2::1"
		and .state == "closed" and .ect == .frames)'
	expect ipv6 listen '[.flows[] | .gaps, .order_violations, .operation_errors] | add == 0'
}

test_one_listener_answers_both_families()
{
	local other

	start_listener
	ip netns exec $a "$rcpeer" send -d v0 -c fd09:2::1 --qpn-base 0x10 --duration 0.8 \
		>"$work/send6.json" &
	other=$!
	ip netns exec $a "$rcpeer" send -d v0 -c 10.9.2.1 --duration 0.8 >"$work/send.json"
	wait $other
	stop_listener
	expect both send '.messages > 100 and .frames_retransmitted == 0 and .not_mine == 0'
	expect both send6 '.messages > 100 and .frames_retransmitted == 0 and .not_mine == 0'
	expect both listen '[.flows[].src] | sort == ["10.9.1.1", "fd09:1::1"]'
	expect both listen '.addresses | index("10.9.2.1") and index("fd09:2::1")'
}

# Twice 128 KB of socket buffer, doubled by the kernel, before a queue of 1 MB.
test_own_queue_holds_an_ipv6_sender_back()
{
	limit_port $a v0 100mbit 1000000
	transfer_to fd09:2::1 --qps 2 --duration 0.8 --window 2000
	tc -n $a -s -j qdisc show dev v0 >"$work/qdisc.json"
	unlimit_port $a v0
	expect held qdisc 'all(.[]; .drops == 0) and .[0].overlimits > 0'
	expect held send '.goodput_bps > 60e6 and .frames_retransmitted == 0 and .timeouts == 0'
}

# test_payload_of_4096_fits MTU ADDRESS
test_payload_of_4096_fits()
{
	set_mtu "$1"
	transfer_to "$2" --mtu 4096 --qps 2 --duration 0.7
	set_mtu 1500
	expect "mtu $1" send '.frames_sent == .messages * 16 and .messages > 100'
	expect "mtu $1" send '.frames_retransmitted == 0 and .frames_unacked == 0'
	expect "mtu $1" listen '.socket_drops == 0 and .icrc_bad == 0 and .not_understood == 0 and
		([.flows[].payload_bytes / 4096] | add) == ([.flows[].frames] | add)'
}

test_held_acks_lengthen_the_round_trip()
{
	listen_options=(--hold-acks 20)
	transfer --duration 0.8 --message 1024
	listen_options=()
	expect hold send '.latency_us.p50 > 20000 and .latency_us.p50 < 25000 and .timeouts == 0'
	expect hold send '.frames_retransmitted == 0 and .frames_unacked == 0'
	expect hold listen '.hold_acks_ms == 20 and .answers_unsent == 0'
}

test_paused_qps_go_idle_and_come_back()
{
	transfer --qps 2 --duration 1 --pause-every 120 --pause-for 80
	expect pause send 'all(.qps[]; .pauses >= 4 and .pauses <= 6 and .pauses_idle == .pauses)'
	expect pause send '.paused_us / .pauses > 60000 and .paused_us / .pauses < 100000'
	expect pause send '.frames_retransmitted == 0 and .messages > 100'
}

# The last socket that a sink opens is the one for TCP over IPv6
sink_listens()
{
	ip netns exec $b ss -Hltn6 sport = :5001 | grep -q LISTEN
}

test_noise_arrives_at_the_sink()
{
	local sink

	ip netns exec $b "$rcpeer" sink >"$work/sink.json" &
	sink=$!
	await "the sink" sink_listens
	ip netns exec $a "$rcpeer" noise -c 10.9.2.1 --udp 20 --duration 0.5 >"$work/noise4.json"
	ip netns exec $a "$rcpeer" noise -c fd09:2::1 --udp 20 --tcp --duration 0.5 \
		>"$work/noise6.json"
	kill -TERM $sink
	wait $sink
	expect noise noise4 '.udp.bps > 18e6 and .udp.bps < 22e6 and .tcp == null'
	expect noise noise6 '.udp.bps > 18e6 and .udp.bps < 22e6 and .tcp.bytes > 1e6'
	expect noise sink ".udp.datagrams + .udp.socket_drops == $(jq -s \
		'map(.udp.datagrams) | add' "$work/noise4.json" "$work/noise6.json")"
	expect noise sink ".tcp.connections == 1 and .tcp.bytes == $(jq .tcp.bytes \
		"$work/noise6.json")"
}

test_arguments_are_refused_with_2()
{
	expect_status 2 "$rcpeer"
	expect_status 2 "$rcpeer" send -d lo
	expect_status 2 "$rcpeer" send -d lo -c 10.9.2
	expect_status 2 "$rcpeer" send -d lo -c 10.9.2.1 --qps 10abc
	expect_status 2 "$rcpeer" send -d lo -c 10.9.2.1 --mtu 1000
	expect_status 2 "$rcpeer" send -d lo -c fd09:2::1::
	expect_status 2 "$rcpeer" send -d lo -c 10.9.2.1 --pause-every 5
	expect_status 2 "$rcpeer" listen -d lo --duration -1
	expect_status 2 "$rcpeer" noise -c 10.9.2.1
	expect_status 0 "$rcpeer" listen --help
}

test_no_responder_fails_with_1_and_a_report()
{
	expect_status 1 ip netns exec $a "$rcpeer" send -d v0 -c 10.9.2.1 --connect-timeout 0.6
}

build_network
test_arguments_are_refused_with_2
test_no_responder_fails_with_1_and_a_report
test_plain_path_loses_nothing
test_full_queue_is_recovered_by_go_back_n
test_deep_queue_fires_no_timer
test_cnps_are_counted_per_qp
test_signal_ends_the_sender_with_a_report
test_ipv6_frames_are_those_of_a_nic
test_one_listener_answers_both_families
test_own_queue_holds_an_ipv6_sender_back
test_payload_of_4096_fits 4200 10.9.2.1
test_payload_of_4096_fits 9000 fd09:2::1
test_held_acks_lengthen_the_round_trip
test_paused_qps_go_idle_and_come_back
test_noise_arrives_at_the_sink
echo "rcpeer: $passed passed, $failed failed"
[ $failed = 0 ]
