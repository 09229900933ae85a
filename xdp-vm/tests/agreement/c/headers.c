/* Headers walked in bounded loops, and packets changed by what they say. */
#include "common.h"

struct vlan {
	__be16 tag;
	__be16 protocol;
};

struct extension {
	__u8 next;
	__u8 length;
};

struct flow {
	__be32 source;
	__be32 destination;
	__be16 ports[2];
	__u8 protocol;
	__u8 zero[3];
};

struct prefix {
	__u32 bits;
	__u8 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow);
	__type(value, __u64);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix);
	__type(value, __u32);
} networks SEC(".maps");

static __always_inline void note(__u32 what)
{
	__u64 *count;

	what &= 63;
	count = bpf_map_lookup_elem(&seen, &what);
	if (count)
		__sync_fetch_and_add(count, 1);
}

SEC("xdp")
int vlans(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct ethhdr *eth = p.data;
	__be16 protocol;
	void *next = eth + 1;
	int depth = 0;

	if (next > p.end)
		return XDP_DROP;
	protocol = eth->h_proto;
	for (int i = 0; i < 10; i++) {
		struct vlan *vlan = next;

		if (protocol != bpf_htons(ETH_P_8021Q) && protocol != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(vlan + 1) > p.end)
			return XDP_DROP;
		protocol = vlan->protocol;
		next = vlan + 1;
		note(bpf_ntohs(vlan->tag) & 15);
		depth++;
	}
	note(16 + depth);
	return depth & 1 ? XDP_PASS : XDP_TX;
}

SEC("xdp")
int extensions(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct ethhdr *eth = p.data;
	struct ipv6hdr *ip = (void *)(eth + 1);
	void *next = ip + 1;
	__u8 protocol;

	if (next > p.end)
		return XDP_DROP;
	if (eth->h_proto != bpf_htons(ETH_P_IPV6))
		return XDP_PASS;
	protocol = ip->nexthdr;
	for (int i = 0; i < 12; i++) {
		struct extension *extension = next;

		if (protocol != 0 && protocol != 43 && protocol != 44 && protocol != 51 &&
		    protocol != 60 && protocol != 135)
			break;
		if ((void *)(extension + 1) > p.end)
			return XDP_DROP;
		if (protocol == 44)
			next += 8;
		else if (protocol == 51)
			next += (extension->length + 2) * 4;
		else
			next += (extension->length + 1) * 8;
		protocol = extension->next;
	}
	note(protocol);
	if (protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = next;

		if ((void *)(tcp + 1) > p.end)
			return XDP_DROP;
		return tcp->syn ? XDP_TX : XDP_PASS;
	}
	if (protocol == IPPROTO_UDP) {
		struct udphdr *udp = next;

		if ((void *)(udp + 1) > p.end)
			return XDP_DROP;
		return udp->dest == bpf_htons(53) ? XDP_DROP : XDP_PASS;
	}
	return XDP_PASS;
}

/* Options of TCP, at an offset that grows by what they say. */
SEC("xdp")
int tcp_options(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct ethhdr *eth = p.data;
	struct iphdr *ip = (void *)(eth + 1);
	struct tcphdr *tcp = (void *)(ip + 1);
	__u32 offset = 20, end;
	int segment = 0, options = 0;

	if ((void *)(tcp + 1) > p.end)
		return XDP_DROP;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 || ip->protocol != IPPROTO_TCP)
		return XDP_PASS;
	end = tcp->doff * 4;
	for (int i = 0; i < 10; i++) {
		__u8 *option = (void *)tcp + (offset & 63);

		if (offset >= end || (void *)(option + 4) > p.end || option[0] == 0)
			break;
		options++;
		if (option[0] == 1) {
			offset++;
			continue;
		}
		if (option[0] == 2 && option[1] == 4)
			segment = option[2] << 8 | option[3];
		if (option[1] < 2)
			break;
		offset += option[1];
	}
	note(options);
	return segment ? XDP_TX : options ? XDP_PASS : XDP_DROP;
}

/* Types, lengths and values from a variable place on. */
SEC("xdp")
int values(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	__u32 offset = sizeof(struct ethhdr), count = 0;

	for (int i = 0; i < 50; i++) {
		__u8 *value;

		if (offset > 1400)
			break;
		value = p.data + offset;
		if ((void *)(value + 2) > p.end || value[0] == 0)
			break;
		if (value[0] == 7 && (void *)(value + 6) <= p.end)
			count += value[4];
		offset += 2 + value[1];
		count++;
	}
	note(count);
	return count % 4;
}

/* A pattern somewhere in the packet. */
SEC("xdp")
int pattern(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	int found = 0;

	for (int i = sizeof(struct ethhdr); i < 400; i++) {
		__u8 *at = p.data + i;

		if ((void *)(at + 4) > p.end)
			break;
		if (at[0] == 10 && at[1] == 0 && at[2] == 0 && at[3] == 2) {
			found = i;
			break;
		}
	}
	note(found);
	return found ? XDP_DROP : XDP_PASS;
}

/* Flows of two kinds of map. */
SEC("xdp")
int flow(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct ethhdr *eth = p.data;
	struct iphdr *ip = (void *)(eth + 1);
	struct prefix prefix = { .bits = 32 };
	struct flow key = {};
	__u64 *count, one = 1;
	__u32 *network;

	if ((void *)(ip + 1) > p.end)
		return XDP_DROP;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->frag_off & bpf_htons(0x1fff))
		return XDP_PASS;
	key.source = ip->saddr;
	key.destination = ip->daddr;
	key.protocol = ip->protocol;
	if (ip->protocol == IPPROTO_TCP || ip->protocol == IPPROTO_UDP) {
		__be16 *ports = (void *)ip + ip->ihl * 4;

		if ((void *)(ports + 2) > p.end)
			return XDP_DROP;
		__builtin_memcpy(key.ports, ports, sizeof(key.ports));
	}
	__builtin_memcpy(prefix.address, &ip->saddr, sizeof(prefix.address));
	network = bpf_map_lookup_elem(&networks, &prefix);
	if (network && *network == 3)
		return XDP_DROP;
	count = bpf_map_lookup_elem(&flows, &key);
	if (count) {
		__sync_fetch_and_add(count, 1);
		return *count > 4 ? XDP_TX : XDP_PASS;
	}
	bpf_map_update_elem(&flows, &key, &one, BPF_NOEXIST);
	return XDP_PASS;
}

/* A tag taken off where there is one, put on where there is none. */
SEC("xdp")
int tag(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct ethhdr eth;
	struct vlan vlan;
	int tagged;

	if (p.data + sizeof(eth) + sizeof(vlan) > p.end)
		return XDP_PASS;
	__builtin_memcpy(&eth, p.data, sizeof(eth));
	__builtin_memcpy(&vlan, p.data + sizeof(eth), sizeof(vlan));
	tagged = eth.h_proto == bpf_htons(ETH_P_8021Q);
	if (bpf_xdp_adjust_head(ctx, tagged ? (int)sizeof(vlan) : -(int)sizeof(vlan)))
		return XDP_ABORTED;
	p = packet_of(ctx);
	if (p.data + sizeof(eth) + sizeof(vlan) > p.end)
		return XDP_ABORTED;
	if (tagged) {
		eth.h_proto = vlan.protocol;
	} else {
		vlan.tag = bpf_htons(7);
		vlan.protocol = eth.h_proto;
		eth.h_proto = bpf_htons(ETH_P_8021Q);
		__builtin_memcpy(p.data + sizeof(eth), &vlan, sizeof(vlan));
	}
	__builtin_memcpy(p.data, &eth, sizeof(eth));
	return tagged ? XDP_TX : XDP_PASS;
}

/* The answer to an ICMP echo, in the packet that asked. */
SEC("xdp")
int echo(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct ethhdr *eth = p.data;
	struct iphdr *ip = (void *)(eth + 1);
	struct icmp *icmp = (void *)(ip + 1);
	__u8 address[ETH_ALEN];
	__be32 source;

	if ((void *)(icmp + 1) > p.end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (ip->ihl != 5 || ip->protocol != IPPROTO_ICMP || icmp->type != 8)
		return XDP_PASS;
	__builtin_memcpy(address, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, address, ETH_ALEN);
	source = ip->saddr;
	ip->saddr = ip->daddr;
	ip->daddr = source;
	icmp->type = 0;
	icmp->checksum = folded(icmp->checksum + bpf_htons(0x0800));
	return XDP_TX;
}

/* To one length, and the length that it had before. */
SEC("xdp")
int resized(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	int length = p.end - p.data;

	if (bpf_xdp_adjust_tail(ctx, 100 - length))
		return XDP_ABORTED;
	note(p.end - p.data);
	return length > 100 ? XDP_TX : XDP_PASS;
}
