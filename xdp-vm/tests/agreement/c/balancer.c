/* A load balancer of the kind that large sites run: a flow's server is found by consistent hashing and
 * remembered by processor, and the packet leaves in a tunnel. */
#include "common.h"

#define RING 4096
#define SERVERS 64
#define PROCESSORS 64
#define MOST 1500

struct flow {
	union {
		__be32 source;
		__be32 source6[4];
	};
	union {
		__be32 destination;
		__be32 destination6[4];
	};
	__be16 ports[2];
	__u8 protocol;
	__u8 zero[3];
};

struct service {
	__u32 flags;
	__u32 number;
};

struct server {
	__be32 address[4];
	__u8 is6;
	__u8 zero[3];
};

struct counts {
	__u64 packets;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, struct service);
} services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8 * RING);
	__type(key, __u32);
	__type(value, __u32);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SERVERS);
	__type(key, __u32);
	__type(value, struct server);
} servers SEC(".maps");

struct remembered {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 100000);
	__type(key, struct flow);
	__type(value, __u32);
} flows0 SEC(".maps"), flows1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PROCESSORS);
	__type(key, __u32);
	__array(values, struct remembered);
} by_processor SEC(".maps") = {
	.values = { &flows0, &flows1 },
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SERVERS);
	__type(key, __u32);
	__type(value, struct counts);
} counted SEC(".maps");

const volatile __u32 secret = 0x5bd1e995;

static __always_inline __u32 rotated(__u32 word, int by)
{
	return word << by | word >> (32 - by);
}

static __noinline __u32 hash(struct flow *flow, __u32 seed)
{
	__u32 *words = (__u32 *)flow, a = seed, b = seed ^ secret;

#pragma unroll
	for (int i = 0; i < sizeof(*flow) / 4; i++) {
		a = rotated(a ^ words[i], 7) * 0x9e3779b1;
		b = rotated(b + a, 13) ^ words[i];
	}
	return a ^ rotated(b, 16);
}

static __noinline int count(__u32 server, __u64 bytes)
{
	struct counts *counts = bpf_map_lookup_elem(&counted, &server);

	if (!counts)
		return 0;
	counts->packets++;
	counts->bytes += bytes;
	return 1;
}

/* The flow that a packet at `network` belongs to; of an ICMP error, the one that it is about. */
static __noinline int flow_of(struct xdp_md *ctx, struct flow *flow, __u32 network, int is6)
{
	struct packet p = packet_of(ctx);
	void *transport;
	__be16 *ports;
	int about = 0;

	if (network > 100)
		return -1;
	if (is6) {
		struct ipv6hdr *ip = p.data + network;

		if ((void *)(ip + 1) > p.end)
			return -1;
		__builtin_memcpy(flow->source6, &ip->saddr, 16);
		__builtin_memcpy(flow->destination6, &ip->daddr, 16);
		flow->protocol = ip->nexthdr;
		transport = ip + 1;
	} else {
		struct iphdr *ip = p.data + network;

		if ((void *)(ip + 1) > p.end || ip->ihl != 5)
			return -1;
		if (ip->frag_off & bpf_htons(0x3fff))
			return -1;
		flow->source = ip->saddr;
		flow->destination = ip->daddr;
		flow->protocol = ip->protocol;
		transport = ip + 1;
		if (ip->protocol == IPPROTO_ICMP) {
			struct icmp *icmp = transport;

			ip = (void *)(icmp + 1);
			if ((void *)(ip + 1) > p.end || icmp->type != 3 || ip->ihl != 5)
				return -1;
			/* It went the other way. */
			flow->source = ip->daddr;
			flow->destination = ip->saddr;
			flow->protocol = ip->protocol;
			transport = ip + 1;
			about = 1;
		}
	}
	if (flow->protocol != IPPROTO_TCP && flow->protocol != IPPROTO_UDP)
		return -1;
	ports = transport;
	if ((void *)(ports + 2) > p.end)
		return -1;
	flow->ports[about] = ports[0];
	flow->ports[!about] = ports[1];
	return about;
}

static __noinline __u32 choose(struct flow *flow, __u32 service)
{
	__u32 place = (service & 7) * RING + (hash(flow, service) & (RING - 1));
	__u32 *server = bpf_map_lookup_elem(&ring, &place);

	return server ? *server & (SERVERS - 1) : 0;
}

static __noinline __u32 server_of(struct flow *flow, __u32 service, int remembers)
{
	__u32 processor = bpf_get_smp_processor_id(), chosen, *known;
	void *flows = bpf_map_lookup_elem(&by_processor, &processor);

	if (!flows || !remembers)
		return choose(flow, service);
	known = bpf_map_lookup_elem(flows, flow);
	if (known)
		return *known & (SERVERS - 1);
	chosen = choose(flow, service);
	bpf_map_update_elem(flows, flow, &chosen, BPF_ANY);
	return chosen;
}

static __noinline int in_ipv4(struct xdp_md *ctx, struct server *server, __u32 seed)
{
	struct packet p = packet_of(ctx);
	__u32 length = p.end - p.data;
	struct ethhdr eth;
	struct iphdr *ip;

	if (p.data + sizeof(eth) > p.end || length > MOST)
		return XDP_DROP;
	__builtin_memcpy(&eth, p.data, sizeof(eth));
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*ip)))
		return XDP_DROP;
	p = packet_of(ctx);
	ip = p.data + sizeof(eth);
	if ((void *)(ip + 1) > p.end)
		return XDP_DROP;
	eth.h_proto = bpf_htons(ETH_P_IP);
	__builtin_memcpy(p.data, &eth, sizeof(eth));
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = 0;
	ip->tot_len = bpf_htons(length - sizeof(eth) + sizeof(*ip));
	ip->id = 0;
	ip->frag_off = bpf_htons(0x4000);
	ip->ttl = 64;
	ip->protocol = IPPROTO_IPIP;
	ip->check = 0;
	ip->saddr = bpf_htonl(0xac100000 | (seed & 0xffff));
	ip->daddr = server->address[0];
	ip->check = ~folded(bpf_csum_diff(0, 0, (__be32 *)ip, sizeof(*ip), 0));
	return XDP_TX;
}

static __noinline int in_ipv6(struct xdp_md *ctx, struct server *server, __u32 seed, int is6)
{
	struct packet p = packet_of(ctx);
	__u32 length = p.end - p.data;
	struct ethhdr eth;
	struct ipv6hdr *ip;

	if (p.data + sizeof(eth) > p.end || length > MOST)
		return XDP_DROP;
	__builtin_memcpy(&eth, p.data, sizeof(eth));
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*ip)))
		return XDP_DROP;
	p = packet_of(ctx);
	ip = p.data + sizeof(eth);
	if ((void *)(ip + 1) > p.end)
		return XDP_DROP;
	eth.h_proto = bpf_htons(ETH_P_IPV6);
	__builtin_memcpy(p.data, &eth, sizeof(eth));
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 6;
	ip->payload_len = bpf_htons(length - sizeof(eth));
	ip->nexthdr = is6 ? IPPROTO_IPV6 : IPPROTO_IPIP;
	ip->hop_limit = 64;
	ip->saddr.s6_addr32[0] = bpf_htonl(0xfd000000);
	ip->saddr.s6_addr32[3] = seed;
	__builtin_memcpy(&ip->daddr, server->address, sizeof(ip->daddr));
	return XDP_TX;
}

/* "Packet too big" to who sent one that does not fit the tunnel. */
static __noinline int too_big(struct xdp_md *ctx)
{
	const int kept = sizeof(struct ethhdr) + sizeof(struct iphdr) + 8;
	const int grown = sizeof(struct iphdr) + sizeof(struct icmp);
	struct packet p = packet_of(ctx);
	struct ethhdr eth;
	struct iphdr *ip;
	struct icmp *icmp;
	__be32 source, destination;

	if (bpf_xdp_adjust_tail(ctx, kept - (int)(p.end - p.data)))
		return XDP_DROP;
	if (bpf_xdp_adjust_head(ctx, -grown))
		return XDP_DROP;
	p = packet_of(ctx);
	if (p.data + kept + grown > p.end)
		return XDP_DROP;
	__builtin_memcpy(&eth, p.data + grown, sizeof(eth));
	ip = p.data + grown + sizeof(eth);
	source = ip->saddr;
	destination = ip->daddr;
	__builtin_memcpy(p.data, eth.h_source, ETH_ALEN);
	__builtin_memcpy(p.data + ETH_ALEN, eth.h_dest, ETH_ALEN);
	__builtin_memcpy(p.data + 2 * ETH_ALEN, &eth.h_proto, 2);
	ip = p.data + sizeof(eth);
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tot_len = bpf_htons(kept + grown - sizeof(eth));
	ip->ttl = 64;
	ip->protocol = IPPROTO_ICMP;
	ip->saddr = destination;
	ip->daddr = source;
	ip->check = ~folded(bpf_csum_diff(0, 0, (__be32 *)ip, sizeof(*ip), 0));
	icmp = (void *)(ip + 1);
	icmp->type = 3;
	icmp->code = 4;
	icmp->checksum = 0;
	icmp->rest = bpf_htonl(MOST - 20);
	icmp->checksum = ~folded(bpf_csum_diff(0, 0, (__be32 *)icmp, 8 + 28, 0));
	return XDP_TX;
}

SEC("xdp")
int balancer(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct ethhdr *eth = p.data;
	struct service *service;
	struct server *server;
	struct flow flow = {};
	__u32 number, network = sizeof(*eth), length = p.end - p.data;
	__be16 protocol;
	int is6, about;

	if ((void *)(eth + 1) > p.end)
		return XDP_DROP;
	protocol = eth->h_proto;
	if (protocol == bpf_htons(ETH_P_8021Q)) {
		if (p.data + network + 4 > p.end)
			return XDP_DROP;
		__builtin_memcpy(&protocol, p.data + network + 2, 2);
		network += 4;
	}
	is6 = protocol == bpf_htons(ETH_P_IPV6);
	if (!is6 && protocol != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	about = flow_of(ctx, &flow, network, is6);
	if (about < 0)
		return XDP_PASS;
	number = bpf_ntohs(flow.ports[1]) & 7;
	service = bpf_map_lookup_elem(&services, &number);
	if (!service || service->flags & 4)
		return XDP_PASS;
	if (length > MOST)
		return is6 || about ? XDP_DROP : too_big(ctx);
	number = server_of(&flow, service->number, !(service->flags & 2));
	server = bpf_map_lookup_elem(&servers, &number);
	if (!server)
		return XDP_DROP;
	count(number, length);
	if (server->is6 || is6)
		return in_ipv6(ctx, server, hash(&flow, 1), is6);
	return in_ipv4(ctx, server, hash(&flow, 2));
}
