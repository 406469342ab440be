// SPDX-License-Identifier: BSD-2-Clause
// The files of one agent instance: lock, saved state, socket, pins.
#include "engine/instance.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool name_is_plain(const char *name)
{
	if (!*name || *name == '.' || strlen(name) >= INSTANCE_NAME_MAX)
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("-_.", *name))
			return false;
	return true;
}

int instance_init(struct instance *instance, const char *name, struct qerr *err)
{
	memset(instance, 0, sizeof(*instance));
	instance->lock_fd = -1;
	if (!name_is_plain(name))
		return qerr_set(err, -EINVAL,
			"instance \"%s\": 1 to %d letters, digits, '-', '_' or '.', not starting "
			"with '.'",
			name, INSTANCE_NAME_MAX - 1);
	snprintf(instance->name, sizeof(instance->name), "%s", name);
	snprintf(instance->socket_path, sizeof(instance->socket_path), "/run/quench/%s.sock", name);
	snprintf(instance->state_path, sizeof(instance->state_path), "/run/quench/%s.state", name);
	snprintf(instance->pin_dir, sizeof(instance->pin_dir), "/sys/fs/bpf/quench/v%d/%s",
		ABI_VERSION, name);
	return 0;
}

/* Is the file that fd holds still the one at path? A predecessor may have removed it meanwhile. */
static bool is_same_file(int fd, const char *path)
{
	struct stat held, named;

	return !fstat(fd, &held) && !stat(path, &named) && held.st_ino == named.st_ino &&
	       held.st_dev == named.st_dev;
}

/* The state file, made if need be; another instance may remove the directory as it goes. */
static int open_state(const struct instance *instance)
{
	int fd = -1;

	for (int i = 0; fd < 0 && i < 10; i++) {
		if (mkdir("/run/quench", 0755) && errno != EEXIST)
			return -1;
		fd = open(instance->state_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 && errno != ENOENT)
			return -1;
	}
	return fd;
}

int instance_lock(struct instance *instance, struct qerr *err)
{
	int fd;

	do {
		fd = open_state(instance);
		if (fd < 0)
			return qerr_set(err, -errno, "cannot open %s: %s", instance->state_path,
				strerror(errno));
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			close(fd);
			return qerr_set(err, -EBUSY,
				"instance %s is running already; another one needs a name of its "
				"own: --instance NAME",
				instance->name);
		}
		if (is_same_file(fd, instance->state_path))
			break;
		close(fd);
	} while (true);
	instance->lock_fd = fd;
	return 0;
}

void instance_unlock(struct instance *instance)
{
	if (instance->lock_fd >= 0)
		close(instance->lock_fd);
	instance->lock_fd = -1;
}

void instance_abandon(struct instance *instance)
{
	struct stat st;

	if (!fstat(instance->lock_fd, &st) && !st.st_size)
		instance_forget(instance);
	else
		instance_unlock(instance);
}

static void read_port(json_t *from, struct instance_state *state)
{
	struct instance_port *port = &state->ports[state->ports_count];
	const char *name = json_string_value(json_object_get(from, "name"));
	int ifindex = json_integer_value(json_object_get(from, "ifindex"));

	if (!name || ifindex <= 0)
		return;
	snprintf(port->name, sizeof(port->name), "%s", name);
	port->ifindex = ifindex;
	port->line_rate_bps = json_integer_value(json_object_get(from, "line_rate_bps"));
	state->ports_count++;
}

int instance_load(const struct instance *instance, struct instance_state *state, struct qerr *err)
{
	const char *layout;
	json_error_t where;
	json_t *doc, *port;
	struct stat st;
	size_t i;

	memset(state, 0, sizeof(*state));
	if (stat(instance->state_path, &st) || !st.st_size)
		return 0;
	/* a longer state before this one may still stand behind it */
	doc = json_load_file(instance->state_path, JSON_DISABLE_EOF_CHECK, &where);
	if (!doc)
		return qerr_set(err, -EINVAL,
			"%s:%d:%d: %s: what is left of the instance is not known; delete this file "
			"and "
			"%s, and queues with handle 9000: (tc qdisc)",
			instance->state_path, where.line, where.column, where.text,
			instance->pin_dir);
	state->netns = json_integer_value(json_object_get(doc, "netns"));
	layout = json_string_value(json_object_get(doc, "layout"));
	snprintf(state->layout, sizeof(state->layout), "%s", layout ? layout : "");
	json_array_foreach (json_object_get(doc, "ports"), i, port)
		if (state->ports_count < SLOTS_MAX)
			read_port(port, state);
	json_decref(doc);
	return 0;
}

int instance_save(
	const struct instance *instance, const struct instance_state *state, struct qerr *err)
{
	json_t *ports = json_array(), *doc;
	int code = 0;
	char *text;

	for (size_t i = 0; i < state->ports_count; i++) {
		const struct instance_port *port = &state->ports[i];

		json_array_append_new(ports,
			json_pack("{s:s, s:i, s:I}", "name", port->name, "ifindex", port->ifindex,
				"line_rate_bps", (json_int_t)port->line_rate_bps));
	}
	doc = json_pack("{s:i, s:I, s:s, s:o}", "pid", getpid(), "netns", (json_int_t)state->netns,
		"layout", state->layout, "ports", ports);
	text = json_dumps(doc, JSON_COMPACT);
	if (!text || pwrite(instance->lock_fd, text, strlen(text), 0) != (ssize_t)strlen(text) ||
		ftruncate(instance->lock_fd, strlen(text)))
		code = qerr_set(
			err, -EIO, "cannot write %s: %s", instance->state_path, strerror(errno));
	free(text);
	json_decref(doc);
	return code;
}

uint64_t instance_netns(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;
}

void instance_forget(struct instance *instance)
{
	unlink(instance->socket_path);
	unlink(instance->state_path);
	rmdir("/run/quench"); /* if it was the last */
	instance_unlock(instance);
}
