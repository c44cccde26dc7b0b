// echo: a bare epoll server that sends back what it reads. What a load generator reaches against it
// is the machine's limit for one thread of any server: sockets and wake-ups, and no work at all.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES 65536

static void fail(const char *what) {
  fprintf(stderr, "echo: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void watch(int epoll, int fd, int operation, uint32_t what) {
  struct epoll_event event = {.events = what, .data.fd = fd};
  if (epoll_ctl(epoll, operation, fd, &event) != 0) fail("epoll_ctl");
}

// Sends everything. A peer that doesn't read blocks the whole server: it is a yardstick, not a
// service.
static int send_all(int fd, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);
    if (n < 0) return -1;
    bytes += n;
    count -= (size_t)n;
  }
  return 0;
}

int main(int argc, char **argv) {
  int port = argc > 1 ? atoi(argv[1]) : 11300;
  if (argc > 2 || port < 1 || port > 65535) {
    fputs("Usage: echo [PORT]   (127.0.0.1 only)\n", stderr);
    return 2;
  }
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);

  int on = 1;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) fail("socket");
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); // accepted sockets inherit it
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0) fail("bind");
  if (listen(listener, 1024) != 0) fail("listen");
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  watch(epoll, listener, EPOLL_CTL_ADD, EPOLLIN);

  static char buffer[BUFFER_BYTES];
  struct epoll_event events[256];
  for (;;) {
    int n = epoll_wait(epoll, events, 256, -1);
    if (n < 0 && errno != EINTR) fail("epoll_wait");
    for (int i = 0; i < n; i++) {
      int fd = events[i].data.fd;
      if (fd == listener) {
        int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (accepted >= 0) watch(epoll, accepted, EPOLL_CTL_ADD, EPOLLIN);
        continue;
      }
      ssize_t bytes = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (bytes <= 0 || send_all(fd, buffer, (size_t)bytes) != 0) close(fd);
    }
  }
}
