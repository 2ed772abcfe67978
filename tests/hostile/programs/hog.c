/* Take too much of something: hog WHAT, bounded by itself where nothing else bounds it. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, MOST = 512, THREADS = 400, GROUPS = 64 };

static char block[MIB];

/* Write MIB after MIB to a file; return how many it took. */
static int fill(int file) {
  for (int n = 0; n < MOST; n++)
    if (write(file, block, MIB) != MIB) return n;
  return MOST;
}

static int took(int blocks) {
  printf("took %d MiB\n", blocks);
  return blocks < MOST;
}

static int mapped(void) {
  char *all = mmap(NULL, (size_t)MOST * MIB, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return 1;
  for (size_t n = 0; n < (size_t)MOST * MIB; n += 4096) all[n] = 1;
  return 0;
}

/* Many processes that share nothing, each with a little. */
static int divided(void) {
  for (int n = 0; n < GROUPS; n++)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, 9);
      volatile char *all = malloc(MOST / GROUPS * MIB);
      for (int n = 0; n < MOST / GROUPS * MIB; n += 4096) all[n] = 1;
      sleep(20);
      _exit(0);
    }
  int status;
  alarm(6);
  while (wait(&status) > 0)
    if (WIFSIGNALED(status)) kill(getpid(), WTERMSIG(status));
  return 0;
}

static int memory_file(void) { return took(fill(memfd_create("x", 0))); }

static int file(const char *path) { return took(fill(open(path, O_CREAT | O_WRONLY, 0600))); }

/* Files that have no name any more, which no walk of the folder finds. */
static int removed(void) {
  int made = 0;
  for (int n = 0; n < MOST; n++) {
    int one = open("/build/removed", O_CREAT | O_WRONLY | O_TRUNC, 0600);
    unlink("/build/removed");
    if (one < 0 || write(one, block, MIB) != MIB) break;
    made++;
  }
  took(made);
  sleep(20);
  return 0;
}

static void *waits(void *nothing) {
  sleep(20);
  return nothing;
}

static int threads(void) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384 * 4);
  for (int n = 0; n < THREADS; n++) {
    pthread_t one;
    if (pthread_create(&one, &small, waits, NULL) != 0) return 1;
  }
  return 0;
}

/* Queues of sockets, which hold memory of the kernel. */
static int queues(void) {
  int pair[2], bytes = 0;
  while (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0)
    while (write(pair[0], block, 65536) > 0 && bytes < 8 * MOST) bytes += 1;
  return 0;
}

static int watches(void) {
  int one = inotify_init();
  for (int n = 0; n < 3000; n++) {
    char name[64];
    snprintf(name, sizeof name, "/tmp/w%d", n);
    mkdir(name, 0700);
    if (inotify_add_watch(one, name, IN_ALL_EVENTS) < 0) break;
  }
  return 0;
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "";
  memset(block, 'x', sizeof block);
  if (strcmp(what, "mapped") == 0) return mapped();
  if (strcmp(what, "divided") == 0) return divided();
  if (strcmp(what, "memfd") == 0) return memory_file();
  if (strcmp(what, "removed") == 0) return removed();
  if (strcmp(what, "threads") == 0) return threads();
  if (strcmp(what, "queues") == 0) return queues();
  if (strcmp(what, "watches") == 0) return watches();
  return count > 2 && strcmp(what, "file") == 0 ? file(words[2]) : 2;
}
