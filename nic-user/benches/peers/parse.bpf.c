// SPDX-License-Identifier: MIT
// What the kernel programs are measured against: all headers by libxdp's parsing helpers, straight
// through, and one counter. Compiled twice, the second time with FRAGS.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <xdp/parsing_helpers.h>

struct counters {
	__u64 packets;
	__u64 header_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} parsed SEC(".maps");

#ifdef FRAGS
SEC("xdp.frags")
#else
SEC("xdp")
#endif
int parse(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct hdr_cursor at = { .pos = data };
	struct counters *counters;
	struct ipv6hdr *ipv6;
	struct ethhdr *eth;
	struct iphdr *ipv4;
	struct tcphdr *tcp;
	struct udphdr *udp;
	int protocol = -1;
	__u32 key = 0;

	switch (parse_ethhdr(&at, end, &eth)) {
	case bpf_htons(ETH_P_IP):
		protocol = parse_iphdr(&at, end, &ipv4);
		break;
	case bpf_htons(ETH_P_IPV6):
		protocol = parse_ip6hdr(&at, end, &ipv6);
		break;
	}
	if (protocol == IPPROTO_TCP)
		parse_tcphdr(&at, end, &tcp);
	else if (protocol == IPPROTO_UDP)
		parse_udphdr(&at, end, &udp);
	counters = bpf_map_lookup_elem(&parsed, &key);
	if (counters) {
		counters->packets++;
		counters->header_bytes += at.pos - data;
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
