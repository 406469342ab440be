#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Self test of rcpeer: a requester and a responder with a router between them, in namespaces of
# their own. Needs root, jq and scapy. RCPEER names the program (default build/lab/rcpeer).
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
	for ns in "$a v0" "$b v0" "$r va" "$r vb"; do
		ip -n ${ns% *} link set ${ns#* } up
		receive_on_one_cpu $ns
	done
	ip -n $a route add default via 10.9.1.254
	ip -n $b route add default via 10.9.2.254
	ip netns exec $r sysctl -qw net.ipv4.ip_forward=1
}

# limit_router RATE BYTES: the queue towards the responder
limit_router()
{
	tc -n $r qdisc add dev vb root handle 1: htb default 1
	tc -n $r class add dev vb parent 1: classid 1:1 htb rate "$1" burst 3000 cburst 3000 \
		quantum 2000
	tc -n $r qdisc add dev vb parent 1:1 handle 10: bfifo limit "$2"
}

unlimit_router()
{
	tc -n $r qdisc del dev vb root
}

# transfer SEND_OPTION...: reports in $work/send.json and $work/listen.json
transfer()
{
	local listener

	ip netns exec $b "$rcpeer" listen -d v0 >"$work/listen.json" &
	listener=$!
	ip netns exec $a "$rcpeer" send -d v0 -c 10.9.2.1 "$@" >"$work/send.json"
	kill -TERM $listener
	wait $listener
}

# expect BEHAVIOUR REPORT FILTER: the jq filter is true of the report
expect()
{
	if jq -e "$3" "$work/$2.json" >/dev/null; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "FAILED: $1: $2: $3"
	jq -c 'del(.. | .goodput_timeline_bps?, .timeline?)' "$work/$2.json"
}

expect_status()
{
	local want=$1 got=0

	shift
	"$@" >/dev/null 2>&1 || got=$?
	if [ $got = "$want" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: exit $got, not $want: $*"
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

# await_frames COUNT: until the responder's interface has seen that many
await_frames()
{
	local deadline=$((SECONDS + 10))

	until [ "$(frames_at_responder)" -ge "$1" ]; do
		[ $SECONDS -lt $deadline ] || return 1
		sleep 0.05
	done
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

test_arguments_are_refused_with_2()
{
	expect_status 2 "$rcpeer"
	expect_status 2 "$rcpeer" send -d lo
	expect_status 2 "$rcpeer" send -d lo -c 10.9.2
	expect_status 2 "$rcpeer" send -d lo -c 10.9.2.1 --qps 10abc
	expect_status 2 "$rcpeer" send -d lo -c 10.9.2.1 --mtu 1000
	expect_status 2 "$rcpeer" listen -d lo --duration -1
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
echo "rcpeer: $passed passed, $failed failed"
[ $failed = 0 ]
