/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Steps from one header to the next, shared by the sample programs. */
#ifndef IXDP_PARSE_H
#define IXDP_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_VLAN_TAGS 2
#define MAX_EXTENSIONS 6
#define NO_PROTOCOL -1

struct vlan_tag {
	__be16 control;
	__be16 type;
};

struct ipv6_extension {
	__u8 next;
	__u8 len; /* in units of 8 bytes, the first not counted */
	__u8 pad[6];
};

/* A place in the packet, and where the packet ends. */
struct cursor {
	void *at;
	void *end;
};

static __always_inline struct cursor packet(const struct xdp_md *ctx)
{
	struct cursor c = {
		.at = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
	};
	return c;
}

/* The Ethernet header and its VLAN tags. Gives the EtherType in network order, 0 where cut. */
static __always_inline __be16 parse_ethernet(struct cursor *c)
{
	struct ethhdr *eth = c->at;
	__be16 type;

	if ((void *)(eth + 1) > c->end)
		return 0;
	c->at = eth + 1;
	type = eth->h_proto;
#pragma unroll
	for (int i = 0; i < MAX_VLAN_TAGS; i++) {
		struct vlan_tag *tag = c->at;

		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(tag + 1) > c->end)
			return 0;
		type = tag->type;
		c->at = tag + 1;
	}
	return type;
}

/* The IPv6 header and the extensions that only lead to another header. Gives the protocol of
 * what follows, or NO_PROTOCOL where cut. */
static __always_inline int parse_ipv6(struct cursor *c)
{
	struct ipv6hdr *ip = c->at;
	__u8 next;

	if ((void *)(ip + 1) > c->end)
		return NO_PROTOCOL;
	c->at = ip + 1;
	next = ip->nexthdr;
#pragma unroll
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		struct ipv6_extension *ext = c->at;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING &&
		    next != IPPROTO_DSTOPTS && next != IPPROTO_FRAGMENT)
			break;
		if ((void *)(ext + 1) > c->end)
			return NO_PROTOCOL;
		/* A fragment header has no length: it is 8 bytes. */
		c->at += next == IPPROTO_FRAGMENT ? 8 : 8 + 8 * ext->len;
		next = ext->next;
	}
	return next;
}

/* The protocol that an IPv4 or IPv6 packet carries, or NO_PROTOCOL. */
static __always_inline int parse_protocol(struct cursor *c)
{
	__be16 type = parse_ethernet(c);

	if (type == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = c->at;

		if ((void *)(ip + 1) > c->end)
			return NO_PROTOCOL;
		return ip->protocol;
	}
	if (type == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(c);
	return NO_PROTOCOL;
}

#endif
