/*
 * A load balancer as they are written for XDP: parses Ethernet, VLAN, IPv4 and IPv6, finds the
 * service, picks a back end by consistent hashing and a connection table, encapsulates, and counts.
 * Many functions of its own, large inlined ones, many maps.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define CALLED static __attribute__((noinline))
#define swap16 __builtin_bswap16

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { HASH = 1, ARRAY = 2, PERCPU_HASH = 5, PERCPU_ARRAY = 6, LRU_HASH = 9 };
enum { ABORTED, DROP, PASS, TX };

#define MAP(name, kind, K, V, entries)                                              \
	struct {                                                                    \
		int (*type)[kind];                                                  \
		int (*max_entries)[entries];                                        \
		K *key;                                                             \
		V *value;                                                           \
	} name SEC(".maps")

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const ktime)(void) = (void *)5;
static u32 (*const cpu_id)(void) = (void *)8;
static long (*const adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;

struct flow {
	u32 src[4], dst[4];
	u16 src_port, dst_port;
	u8 protocol, family, flags, pad;
};

struct service_key {
	u32 address[4];
	u16 port;
	u8 protocol, family;
};

struct service {
	u32 flags, number;
};

struct connection {
	u64 seen;
	u32 backend, pad;
};

struct backend {
	u32 address[4];
	u8 mac[6];
	u8 family, flags;
};

struct counters {
	u64 packets, bytes;
};

MAP(services, HASH, struct service_key, struct service, 512);
MAP(rings, ARRAY, u32, u32, 65536);
MAP(backends, ARRAY, u32, struct backend, 4096);
MAP(connections, LRU_HASH, struct flow, struct connection, 65536);
MAP(service_stats, PERCPU_ARRAY, u32, struct counters, 512);
MAP(backend_stats, PERCPU_ARRAY, u32, struct counters, 4096);
MAP(causes, PERCPU_ARRAY, u32, struct counters, 64);
MAP(sources, PERCPU_HASH, u32, struct counters, 4096);
MAP(settings, ARRAY, u32, struct backend, 16);

struct packet {
	struct flow flow;
	u32 l3, bytes, cause, fragment;
};

INLINE u32 rotate(u32 x, int by)
{
	return x << by | x >> (32 - by);
}

#define MIX(a, b, c)                                                                \
	do {                                                                        \
		a -= c; a ^= rotate(c, 4); c += b;                                  \
		b -= a; b ^= rotate(a, 6); a += c;                                  \
		c -= b; c ^= rotate(b, 8); b += a;                                  \
		a -= c; a ^= rotate(c, 16); c += b;                                 \
		b -= a; b ^= rotate(a, 19); a += c;                                 \
		c -= b; c ^= rotate(b, 4); b += a;                                  \
	} while (0)

/* As Jenkins has it for words. */
INLINE u32 hash_words(const u32 *words, int n, u32 seed)
{
	u32 a = 0xdeadbeef + (n << 2) + seed, b = a, c = a;

#pragma clang loop unroll(full)
	for (int i = 0; i + 3 <= n; i += 3) {
		a += words[i];
		b += words[i + 1];
		c += words[i + 2];
		MIX(a, b, c);
	}
	if (n % 3 > 0)
		a += words[n - n % 3];
	if (n % 3 > 1)
		b += words[n - n % 3 + 1];
	c ^= b; c -= rotate(b, 14);
	a ^= c; a -= rotate(c, 11);
	b ^= a; b -= rotate(a, 25);
	c ^= b; c -= rotate(b, 16);
	return c;
}

CALLED int count(u32 cause, u32 bytes)
{
	struct counters *c = lookup(&causes, &cause);

	if (!c)
		return 0;
	c->packets++;
	c->bytes += bytes;
	return 1;
}

CALLED int count_service(u32 number, u32 bytes)
{
	struct counters *c = lookup(&service_stats, &number);

	if (!c)
		return 0;
	c->packets++;
	c->bytes += bytes;
	return 1;
}

CALLED int count_backend(u32 number, u32 bytes)
{
	struct counters *c = lookup(&backend_stats, &number);

	if (!c)
		return 0;
	c->packets++;
	c->bytes += bytes;
	return 1;
}

CALLED int count_source(u32 address, u32 bytes)
{
	struct counters *c = lookup(&sources, &address), first = { 1, bytes };

	if (!c)
		return update(&sources, &address, &first, 0);
	c->packets++;
	c->bytes += bytes;
	return 1;
}

/* Number NUMBER of a family of functions that differ, as the stages of a real one do. */
#define STAGE(NUMBER)                                                               \
	CALLED u32 stage_##NUMBER(struct packet *p, u32 seed)                       \
	{                                                                           \
		u32 words[9], h;                                                    \
									            \
		for (int i = 0; i < 4; i++) {                                       \
			words[i] = p->flow.src[i] ^ (NUMBER * 0x9e3779b9u);         \
			words[4 + i] = p->flow.dst[i] + i * NUMBER;                 \
		}                                                                   \
		words[8] = (u32)p->flow.src_port << 16 | p->flow.dst_port;          \
		h = hash_words(words, 9, seed + NUMBER);                            \
		if (p->flow.protocol == 6 && p->flow.flags & NUMBER)                \
			h ^= hash_words(words, 5, h);                               \
		else if (h % (NUMBER + 3) == 0)                                     \
			count(NUMBER % 64, p->bytes);                               \
		return h;                                                           \
	}

STAGE(1) STAGE(2) STAGE(3) STAGE(4) STAGE(5) STAGE(6) STAGE(7) STAGE(8) STAGE(9)
STAGE(10) STAGE(11) STAGE(12) STAGE(13) STAGE(14) STAGE(15) STAGE(16) STAGE(17)

INLINE int parse_ports(struct xdp_md *ctx, struct packet *p, u32 at)
{
	u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end, *ports;

	if (at > 200)
		return -1;
	ports = data + at;
	/* One pointer, whose check holds for what is read by it. */
	asm volatile("" : "+r"(ports));
	if (ports + 20 > end)
		return -1;
	p->flow.src_port = *(u16 *)ports;
	p->flow.dst_port = *(u16 *)(ports + 2);
	if (p->flow.protocol == 6)
		p->flow.flags = ports[13];
	return 0;
}

CALLED int parse_ipv4(struct xdp_md *ctx, struct packet *p)
{
	u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end, *ip;
	u32 at = p->l3, length;

	if (at > 64)
		return -1;
	ip = data + at;
	if (ip + 20 > end)
		return -1;
	length = (ip[0] & 0xf) * 4;
	if (length < 20)
		return -1;
	p->flow.family = 4;
	p->flow.protocol = ip[9];
	p->flow.src[0] = *(u32 *)(ip + 12);
	p->flow.dst[0] = *(u32 *)(ip + 16);
	p->bytes = swap16(*(u16 *)(ip + 2));
	p->fragment = *(u16 *)(ip + 6) & 0xff3f;
	if (p->fragment || (ip[9] != 6 && ip[9] != 17))
		return 0;
	return parse_ports(ctx, p, at + length);
}

CALLED int parse_ipv6(struct xdp_md *ctx, struct packet *p)
{
	u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end, *ip, next;
	u32 at = p->l3;

	if (at > 64)
		return -1;
	ip = data + at;
	if (ip + 40 > end)
		return -1;
	p->flow.family = 6;
	next = ip[6];
	p->bytes = swap16(*(u16 *)(ip + 4)) + 40;
	for (int i = 0; i < 4; i++) {
		p->flow.src[i] = *(u32 *)(ip + 8 + 4 * i);
		p->flow.dst[i] = *(u32 *)(ip + 24 + 4 * i);
	}
	at += 40;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 4; i++) {
		u8 *option;

		if (next != 0 && next != 43 && next != 60)
			break;
		if (at > 180)
			return -1;
		option = data + at;
		asm volatile("" : "+r"(option));
		if (option + 8 > end)
			return -1;
		next = option[0];
		at += (option[1] & 3) * 8 + 8;
	}
	p->flow.protocol = next;
	if (next != 6 && next != 17)
		return 0;
	return parse_ports(ctx, p, at);
}

CALLED int find_service(struct packet *p, u32 *number)
{
	struct service_key key = { .port = p->flow.dst_port, .protocol = p->flow.protocol,
				   .family = p->flow.family };
	struct service *s;

	for (int i = 0; i < 4; i++)
		key.address[i] = p->flow.dst[i];
	s = lookup(&services, &key);
	if (!s) {
		key.port = 0;
		s = lookup(&services, &key);
	}
	if (!s)
		return -1;
	*number = s->number;
	return s->flags;
}

CALLED u32 pick(struct packet *p, u32 number, u32 hash)
{
	struct connection *known = lookup(&connections, &p->flow), made = {};
	u32 slot = number * 64 + hash % 64, *backend;

	if (known) {
		known->seen = ktime();
		return known->backend;
	}
	backend = lookup(&rings, &slot);
	if (!backend)
		return 0;
	made.seen = ktime();
	made.backend = *backend;
	update(&connections, &p->flow, &made, 0);
	return *backend;
}

CALLED int encapsulate(struct xdp_md *ctx, struct packet *p, u32 number)
{
	struct backend *b = lookup(&backends, &number), *self;
	u8 *data, *end;
	u32 zero = 0, sum = 0;
	u16 *words;

	self = lookup(&settings, &zero);
	if (!b || !self || adjust_head(ctx, -20))
		return -1;
	data = (u8 *)(long)ctx->data;
	end = (u8 *)(long)ctx->data_end;
	if (data + 34 > end)
		return -1;
	for (int i = 0; i < 6; i++) {
		data[i] = b->mac[i];
		data[6 + i] = self->mac[i];
	}
	*(u16 *)(data + 12) = swap16(0x0800);
	words = (u16 *)(data + 14);
	words[0] = swap16(0x4500);
	words[1] = swap16(p->bytes + 20);
	words[2] = 0;
	words[3] = 0;
	words[4] = swap16(64 << 8 | 4);
	words[5] = 0;
	*(u32 *)(words + 6) = self->address[0];
	*(u32 *)(words + 8) = b->address[0];
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	words[5] = ~sum;
	return 0;
}

SEC("xdp") int balance(struct xdp_md *ctx)
{
	u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end;
	struct packet p = { .l3 = 14 };
	u32 hash = cpu_id(), number = 0, backend;
	u16 type;
	int flags;

	if (data + 14 > end)
		return DROP;
	type = *(u16 *)(data + 12);
#pragma clang loop unroll(full)
	for (int i = 0; i < 2; i++) {
		if (type != swap16(0x8100) && type != swap16(0x88a8))
			break;
		if (data + p.l3 + 4 > end)
			return DROP;
		type = *(u16 *)(data + p.l3 + 2);
		p.l3 += 4;
	}
	if (type == swap16(0x0800)) {
		if (parse_ipv4(ctx, &p) < 0)
			return DROP;
	} else if (type == swap16(0x86dd)) {
		if (parse_ipv6(ctx, &p) < 0)
			return DROP;
	} else {
		return PASS;
	}
	if (p.fragment) {
		count(1, p.bytes);
		return PASS;
	}
	flags = find_service(&p, &number);
	if (flags < 0)
		return PASS;
#define RUN(NUMBER) if (flags & 1 << (NUMBER - 1)) hash = stage_##NUMBER(&p, hash);
	RUN(1) RUN(2) RUN(3) RUN(4) RUN(5) RUN(6) RUN(7) RUN(8) RUN(9)
	RUN(10) RUN(11) RUN(12) RUN(13) RUN(14) RUN(15) RUN(16) RUN(17)
	count_service(number, p.bytes);
	count_source(p.flow.src[0], p.bytes);
	backend = pick(&p, number, hash);
	if (!backend || encapsulate(ctx, &p, backend) < 0) {
		count(2, p.bytes);
		return DROP;
	}
	count_backend(backend, p.bytes);
	return TX;
}

char _license[] SEC("license") = "GPL";
