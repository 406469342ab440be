// SPDX-License-Identifier: BSD-2-Clause
// Captures through libpcap. The only file that may include its headers: they clash with bpf/bpf.h.
#include "capture/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/link.h"
#include "capture/stream.h"

enum {
	RING_BYTES = 32 * 1024 * 1024, /* between the kernel and us, on a port */
	IDLE_MS = 100,
	NAME_BYTES = 256,
	NS_PER_S = 1000000000,
};

struct capture {
	pcap_t *pcap;
	const struct link_type *link;
	char name[NAME_BYTES]; /* of the file or port, for errors */
	uint64_t frames;
	int fd; /* what is read, the stream's; -1: a port */
	bool regular;
	uint64_t size_bytes;
	struct stream *stream; /* libpcap closes it */
	bool nanoseconds;
	_Alignas(4) uint8_t room[LINK_HEADROOM_BYTES + LINK_RECORD_BYTES_MAX];
};

static const char *link_text(int number)
{
	const char *text = pcap_datalink_val_to_description(number);

	return text ? text : "unknown";
}

static int check_link(struct capture *c, struct qerr *err)
{
	int number = pcap_datalink(c->pcap);
	char names[128];

	c->link = link_find(number);
	if (c->link)
		return 0;
	link_names(names, sizeof(names));
	return qerr_set(err, -EPROTONOSUPPORT, "%s: link type %s (%d) cannot be analyzed; %s can",
		c->name, link_text(number), number, names);
}

static struct capture *new_capture(const char *name)
{
	struct capture *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->fd = -1;
	return c;
}

void capture_close(struct capture *c)
{
	if (!c)
		return;
	if (c->pcap)
		pcap_close(c->pcap);
	free(c);
}

/* Files */

static int open_descriptor(struct capture *c, const char *path, struct qerr *err)
{
	struct stat st;

	c->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
	if (c->fd < 0)
		return qerr_set(err, -errno, "%s: %s", c->name, strerror(errno));
	if (fstat(c->fd, &st))
		return qerr_set(err, -errno, "%s: %s", c->name, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return qerr_set(err, -EISDIR, "%s: is a directory", c->name);
	c->regular = S_ISREG(st.st_mode);
	c->size_bytes = c->regular ? st.st_size : 0;
	return 0;
}

/* Why libpcap could not read on. */
static const char *read_error(const struct capture *c, const char *text)
{
	const char *error = c->stream ? stream_error(c->stream) : NULL;

	return error ? error : text;
}

/* Open the descriptor and give it to a stream, which then owns it. */
static FILE *open_stream(struct capture *c, const char *path, struct qerr *err)
{
	FILE *file;

	if (open_descriptor(c, path, err)) {
		if (c->fd >= 0)
			close(c->fd);
		return NULL;
	}
	posix_fadvise(c->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	file = stream_open(c->fd, &c->stream);
	if (!file)
		qerr_set(err, -errno, "%s: %s", c->name, strerror(errno));
	return file;
}

static int open_pcap(struct capture *c, const char *path, struct qerr *err)
{
	char text[PCAP_ERRBUF_SIZE] = "";
	FILE *file = open_stream(c, path, err);

	if (!file)
		return -EIO;
	c->nanoseconds = true;
	c->pcap = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, text);
	if (c->pcap)
		return 0;
	qerr_set(err, -EINVAL, "%s: not a capture that can be read: %s", c->name,
		read_error(c, text));
	fclose(file);
	return -EINVAL;
}

int capture_open_file(const char *path, struct capture **out, struct qerr *err)
{
	struct capture *c = new_capture(strcmp(path, "-") ? path : "standard input");
	int code;

	if (!c)
		return qerr_set(err, -ENOMEM, "out of memory");
	code = open_pcap(c, path, err);
	if (!code)
		code = check_link(c, err);
	if (code) {
		capture_close(c);
		return code;
	}
	*out = c;
	return 0;
}

bool capture_progress(const struct capture *c, uint64_t *done_bytes, uint64_t *all_bytes)
{
	off_t at = c->regular ? lseek(c->fd, 0, SEEK_CUR) : -1;

	*all_bytes = c->size_bytes;
	*done_bytes = at < 0 ? 0 : at;
	return at >= 0;
}

/* Ports */

static const char *activate_text(struct capture *c, int code)
{
	static const struct {
		int code;
		const char *text;
	} rows[] = {
		{PCAP_ERROR_PERM_DENIED, "listening needs CAP_NET_RAW"},
		{PCAP_ERROR_PROMISC_PERM_DENIED, "promiscuous mode needs CAP_NET_ADMIN"},
		{PCAP_ERROR_NO_SUCH_DEVICE, "no such interface"},
		{PCAP_ERROR_IFACE_NOT_UP, "the interface is down"},
	};
	const char *text = pcap_geterr(c->pcap);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].code == code)
			return rows[i].text;
	return *text ? text : pcap_statustostr(code);
}

static int activate(struct capture *c, struct qerr *err)
{
	char text[PCAP_ERRBUF_SIZE] = "";
	int code;

	c->nanoseconds = !pcap_set_tstamp_precision(c->pcap, PCAP_TSTAMP_PRECISION_NANO);
	pcap_set_snaplen(c->pcap, LINK_RECORD_BYTES_MAX);
	pcap_set_promisc(c->pcap, 1);
	pcap_set_timeout(c->pcap, IDLE_MS);
	pcap_set_buffer_size(c->pcap, RING_BYTES);
	code = pcap_activate(c->pcap);
	if (code < 0)
		return qerr_set(err, -EIO, "port %s: %s", c->name, activate_text(c, code));
	if (pcap_setnonblock(c->pcap, 1, text))
		return qerr_set(err, -EIO, "port %s: %s", c->name, text);
	c->fd = -1;
	return check_link(c, err);
}

int capture_open_port(const char *port, struct capture **out, struct qerr *err)
{
	struct capture *c = new_capture(port);
	char text[PCAP_ERRBUF_SIZE] = "";
	int code;

	if (!c)
		return qerr_set(err, -ENOMEM, "out of memory");
	c->pcap = pcap_create(port, text);
	code = c->pcap ? activate(c, err) : qerr_set(err, -ENODEV, "port %s: %s", c->name, text);
	if (code) {
		capture_close(c);
		return code;
	}
	*out = c;
	return 0;
}

uint64_t capture_lost(struct capture *c)
{
	struct pcap_stat stat;

	if (pcap_file(c->pcap) || pcap_stats(c->pcap, &stat))
		return 0;
	return (uint64_t)stat.ps_drop + stat.ps_ifdrop;
}

uint64_t capture_speed_bps(const char *port)
{
	char path[64 + NAME_BYTES];
	long long mbps = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%.*s/speed", NAME_BYTES - 1, port);
	file = strchr(port, '/') ? NULL : fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%lld", &mbps) != 1 || mbps < 0)
		mbps = 0;
	fclose(file);
	return mbps * 1000000ull;
}

/* Both */

const char *capture_link_name(const struct capture *c)
{
	return c->link->name;
}

/* Nothing is there: wait for a moment, or for a signal. */
static enum capture_step wait_for_frames(struct capture *c)
{
	struct pollfd fd = {.fd = pcap_get_selectable_fd(c->pcap), .events = POLLIN};

	poll(&fd, 1, IDLE_MS);
	return CAPTURE_IDLE;
}

/* A file may name any time: what is beyond FRAME_TIME_MAX_NS, also before 1970, is that. */
static uint64_t time_of(const struct capture *c, const struct timeval *ts)
{
	uint64_t seconds = ts->tv_sec, fraction = ts->tv_usec;

	if (seconds >= FRAME_TIME_MAX_NS / NS_PER_S || fraction >= NS_PER_S)
		return FRAME_TIME_MAX_NS;
	return seconds * NS_PER_S + fraction * (c->nanoseconds ? 1 : 1000);
}

static void fill(struct capture *c, const struct pcap_pkthdr *header, const uint8_t *record,
	struct analyze_frame *frame)
{
	frame->number = ++c->frames;
	frame->time_ns = time_of(c, &header->ts);
	frame->len = header->caplen;
	frame->wire_len = header->len;
	link_unwrap(c->link, c->room, record, frame);
}

enum capture_step capture_next(struct capture *c, struct analyze_frame *frame, struct qerr *err)
{
	struct pcap_pkthdr *header;
	const uint8_t *record;

	switch (pcap_next_ex(c->pcap, &header, &record)) {
	case 1:
		fill(c, header, record, frame);
		return CAPTURE_FRAME;
	case 0:
		return wait_for_frames(c);
	case PCAP_ERROR_BREAK:
		return CAPTURE_END;
	}
	qerr_set(err, -EIO, "%s: after frame %" PRIu64 ": %s", c->name, c->frames,
		read_error(c, pcap_geterr(c->pcap)));
	return CAPTURE_FAILED;
}
