// SPDX-License-Identifier: BSD-2-Clause
// The HTTP endpoint that Prometheus scrapes.
#include "observe/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* So many may be connected, further ones are turned away; who is silent is let go. */
enum { CONNECTIONS_MAX = 256, SILENCE_SECONDS = 2, CONNECTION_BYTES = 8192 };

struct http {
	struct MHD_Daemon *daemon;
	http_metrics_fn fn;
	void *arg;
};

static enum MHD_Result answer_text(
	struct MHD_Connection *connection, unsigned int status, const char *type, const char *text)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_metrics(struct http *http, struct MHD_Connection *connection)
{
	enum MHD_Result result;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return MHD_NO;
	http->fn(http->arg, out);
	if (fclose(out)) {
		free(text);
		return MHD_NO;
	}
	result = answer_text(connection, MHD_HTTP_OK, METRICS_TYPE, text);
	free(text);
	return result;
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_bytes,
	void **state)
{
	(void)version;
	(void)upload;
	(void)upload_bytes;
	(void)state;
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return answer_text(
			connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "GET /metrics\n");
	if (strcmp(url, "/metrics"))
		return answer_text(
			connection, MHD_HTTP_NOT_FOUND, "text/plain", "quench: see /metrics\n");
	return answer_metrics(arg, connection);
}

/* The socket address of a numeric host; 0 when it is none. */
static int parse_host(const char *host, uint16_t port, struct sockaddr_storage *addr)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;

	memset(addr, 0, sizeof(*addr));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		return AF_INET;
	}
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		return AF_INET6;
	}
	return 0;
}

int http_start(struct http **out, const char *host, uint16_t port, http_metrics_fn fn, void *arg,
	struct qerr *err)
{
	struct sockaddr_storage addr;
	int family = parse_host(host, port, &addr);
	struct http *http;

	if (!family)
		return qerr_set(
			err, -EINVAL, "observe.listen: \"%s\" is not a numeric address", host);
	http = calloc(1, sizeof(*http));
	if (!http)
		return qerr_set(err, -ENOMEM, "out of memory");
	http->fn = fn;
	http->arg = arg;
	http->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | (family == AF_INET6 ? MHD_USE_IPv6 : 0), port,
		NULL, NULL, answer, http, MHD_OPTION_SOCK_ADDR, &addr, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned int)SILENCE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_BYTES, MHD_OPTION_END);
	if (!http->daemon) {
		int code = errno ? -errno : -EADDRINUSE;

		free(http);
		return qerr_set(err, code, "observe.listen: cannot listen on %s port %u: %s", host,
			port, strerror(-code));
	}
	*out = http;
	return 0;
}

void http_stop(struct http *http)
{
	if (!http)
		return;
	MHD_stop_daemon(http->daemon);
	free(http);
}
