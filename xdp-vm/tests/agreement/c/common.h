/* What the programs of this folder share. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* As <linux/icmp.h> has it, which needs headers that are not for this machine. */
struct icmp {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 rest;
};

struct packet {
	void *data;
	void *end;
};

static __always_inline struct packet packet_of(struct xdp_md *ctx)
{
	return (struct packet){ (void *)(long)ctx->data, (void *)(long)ctx->data_end };
}

static __always_inline __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

char _license[] SEC("license") = "GPL";
