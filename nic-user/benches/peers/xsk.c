// SPDX-License-Identifier: MIT
// What the driver is measured against: the same jobs over libxdp, as its own examples do them
// (xdpsock of the kernel's samples): 4096 frames of 4096 bytes, rings of 2048, batches of 64.
//
// xsk JOB IFINDEX XSKMAP_FD CPU FRAME_LEN MILLISECONDS < frame
//
// Prints the packets and the seconds of this processor's time that they took.

#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <xdp/xsk.h>

#define FRAMES 4096u
#define FRAME_SIZE XSK_UMEM__DEFAULT_FRAME_SIZE
#define BATCH 64u

// Exit status: the kernel has not yet given the queue free that the run before had.
#define QUEUE_IN_USE 3

static struct {
	struct xsk_umem *umem;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons completion, rx;
	struct xsk_socket *socket;
	char *memory;
	unsigned in_flight;
} x;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void open_socket(unsigned ifindex, int map)
{
	const struct xsk_umem_config umem = {
		.fill_size = 2 * XSK_RING_PROD__DEFAULT_NUM_DESCS,
		.comp_size = XSK_RING_CONS__DEFAULT_NUM_DESCS,
		.frame_size = FRAME_SIZE,
		.frame_headroom = 0,
	};
	const struct xsk_socket_config config = {
		.rx_size = XSK_RING_CONS__DEFAULT_NUM_DESCS,
		.tx_size = XSK_RING_PROD__DEFAULT_NUM_DESCS,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_USE_NEED_WAKEUP | XDP_COPY,
	};
	char name[IF_NAMESIZE];

	x.memory = mmap(NULL, FRAMES * FRAME_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (x.memory == MAP_FAILED)
		die("mmap");
	if (!if_indextoname(ifindex, name))
		die("if_indextoname");
	errno = -xsk_umem__create(&x.umem, x.memory, FRAMES * FRAME_SIZE, &x.fill, &x.completion,
				  &umem);
	if (errno)
		die("xsk_umem__create");
	errno = -xsk_socket__create(&x.socket, name, 0, x.umem, &x.rx, &x.tx, &config);
	if (errno == EBUSY)
		exit(QUEUE_IN_USE);
	if (errno)
		die("xsk_socket__create");
	if (map >= 0 && xsk_socket__update_xskmap(x.socket, map))
		die("xsk_socket__update_xskmap");
}

static void give_all_to_fill(void)
{
	uint32_t at;
	unsigned count = 2 * XSK_RING_PROD__DEFAULT_NUM_DESCS;

	if (xsk_ring_prod__reserve(&x.fill, count, &at) != count)
		die("fill");
	for (unsigned i = 0; i < count; i++)
		*xsk_ring_prod__fill_addr(&x.fill, at++) = (uint64_t)i * FRAME_SIZE;
	xsk_ring_prod__submit(&x.fill, count);
}

static void wake_tx(void)
{
	if (xsk_ring_prod__needs_wakeup(&x.tx) &&
	    sendto(xsk_socket__fd(x.socket), NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 &&
	    errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
		die("sendto");
}

static void wake_rx(void)
{
	if (xsk_ring_prod__needs_wakeup(&x.fill))
		recvfrom(xsk_socket__fd(x.socket), NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

static unsigned rx_drop(void)
{
	uint32_t rx_at, fill_at;
	unsigned count = xsk_ring_cons__peek(&x.rx, BATCH, &rx_at);

	if (!count) {
		wake_rx();
		return 0;
	}
	while (xsk_ring_prod__reserve(&x.fill, count, &fill_at) != count)
		wake_rx();
	for (unsigned i = 0; i < count; i++) {
		uint64_t address = xsk_ring_cons__rx_desc(&x.rx, rx_at++)->addr;
		*xsk_ring_prod__fill_addr(&x.fill, fill_at++) = xsk_umem__extract_addr(address);
	}
	xsk_ring_prod__submit(&x.fill, count);
	xsk_ring_cons__release(&x.rx, count);
	return count;
}

static unsigned frame_len;

static unsigned tx_only(void)
{
	static unsigned next;
	uint32_t at;

	if (xsk_ring_prod__reserve(&x.tx, BATCH, &at) == BATCH) {
		for (unsigned i = 0; i < BATCH; i++) {
			struct xdp_desc *desc = xsk_ring_prod__tx_desc(&x.tx, at++);
			desc->addr = (uint64_t)next * FRAME_SIZE;
			desc->len = frame_len;
			desc->options = 0;
			next = (next + 1) % FRAMES;
		}
		xsk_ring_prod__submit(&x.tx, BATCH);
		x.in_flight += BATCH;
	}
	wake_tx();
	unsigned done = xsk_ring_cons__peek(&x.completion, BATCH, &at);
	xsk_ring_cons__release(&x.completion, done);
	x.in_flight -= done;
	return done;
}

static void swap_addresses(char *frame)
{
	char address[6];

	memcpy(address, frame, 6);
	memmove(frame, frame + 6, 6);
	memcpy(frame + 6, address, 6);
}

static void completed_to_fill(void)
{
	uint32_t from, to;
	unsigned count;

	if (!x.in_flight)
		return;
	wake_tx();
	count = xsk_ring_cons__peek(&x.completion, x.in_flight < BATCH ? x.in_flight : BATCH, &from);
	if (!count)
		return;
	while (xsk_ring_prod__reserve(&x.fill, count, &to) != count)
		wake_rx();
	for (unsigned i = 0; i < count; i++)
		*xsk_ring_prod__fill_addr(&x.fill, to++) =
			*xsk_ring_cons__comp_addr(&x.completion, from++);
	xsk_ring_prod__submit(&x.fill, count);
	xsk_ring_cons__release(&x.completion, count);
	x.in_flight -= count;
}

static unsigned l2_forward(void)
{
	uint32_t rx_at, tx_at;
	unsigned count;

	completed_to_fill();
	count = xsk_ring_cons__peek(&x.rx, BATCH, &rx_at);
	if (!count) {
		wake_rx();
		return 0;
	}
	while (xsk_ring_prod__reserve(&x.tx, count, &tx_at) != count)
		completed_to_fill();
	for (unsigned i = 0; i < count; i++) {
		const struct xdp_desc *in = xsk_ring_cons__rx_desc(&x.rx, rx_at++);
		struct xdp_desc *out = xsk_ring_prod__tx_desc(&x.tx, tx_at++);
		swap_addresses(xsk_umem__get_data(x.memory, in->addr));
		out->addr = in->addr;
		out->len = in->len;
		out->options = 0;
	}
	xsk_ring_prod__submit(&x.tx, count);
	xsk_ring_cons__release(&x.rx, count);
	x.in_flight += count;
	return count;
}

static void prepare_frames(void)
{
	char frame[FRAME_SIZE];

	if (fread(frame, 1, frame_len, stdin) != frame_len)
		die("frame");
	for (unsigned i = 0; i < FRAMES; i++)
		memcpy(x.memory + (size_t)i * FRAME_SIZE, frame, frame_len);
}

static void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
}

int main(int argc, char **argv)
{
	unsigned (*job)(void);
	uint64_t packets = 0;

	if (argc != 7)
		return 2;
	pin(atoi(argv[4]));
	frame_len = atoi(argv[5]);
	open_socket(atoi(argv[2]), atoi(argv[3]));
	if (!strcmp(argv[1], "tx-only")) {
		job = tx_only;
		prepare_frames();
	} else {
		job = strcmp(argv[1], "rx-drop") ? l2_forward : rx_drop;
		give_all_to_fill();
	}
	// Time starts with the first packet.
	while (!job())
		;
	double start = now(), end = start + atoi(argv[6]) / 1e3, at;
	do
		for (unsigned i = 0; i < 256; i++)
			packets += job();
	while ((at = now()) < end);
	printf("%llu %.9f\n", (unsigned long long)packets, at - start);
	return 0;
}
