/* What lets one source be a program of XDP, of a VM without XDP's context, and of the machine. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

struct packet {
	u8 *data;
	u8 *end;
};

#ifdef XDP
/* The kernel's context: addresses in fields of 4 bytes, which the verifier makes whole. */
struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
};

#define PROGRAM(name)                                                           \
	INLINE int name##_body(struct packet packet);                           \
	SECTION("xdp") int name(struct xdp_md *ctx)                             \
	{                                                                       \
		return name##_body((struct packet){ (u8 *)(long)ctx->data,      \
						    (u8 *)(long)ctx->data_end });\
	}                                                                       \
	INLINE int name##_body(struct packet packet)
#else
#define PROGRAM(name)                                                           \
	INLINE int name##_body(struct packet packet);                           \
	int name(struct packet *packet)                                         \
	{                                                                       \
		return name##_body(*packet);                                    \
	}                                                                       \
	INLINE int name##_body(struct packet packet)
#endif

#define COUNTS 256

#if defined(XDP)
struct {
	int (*type)[2];
	int (*max_entries)[COUNTS];
	u32 *key;
	u64 *value;
} counts SECTION(".maps");

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;

INLINE u64 *count_of(u32 protocol)
{
	return map_lookup(&counts, &protocol);
}
#elif defined(__bpf__)
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;

INLINE u64 *count_of(u32 protocol)
{
	return map_lookup(0, &protocol);
}
#else
u64 counts[COUNTS];

INLINE u64 *count_of(u32 protocol)
{
	return protocol < COUNTS ? &counts[protocol] : 0;
}
#endif

/* Numbers are in the order of the network. */
#define IPV4 0x0008
#define UDP 17

#define DROP 1
#define PASS 2

/* The IPv4 header of a packet that has one whole, or null. */
INLINE u8 *ipv4_of(struct packet packet)
{
	u8 *ip = packet.data + 14;

	if (ip + 20 > packet.end || *(u16 *)(packet.data + 12) != IPV4)
		return 0;
	return ip;
}
