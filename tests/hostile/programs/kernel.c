/* Ask the kernel for what no run may have. Print "got NAME" for each that it gave.

   kernel NAME... tries these alone. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

static int opens(const char *path, int flags) {
  int file = open(path, flags);
  return file >= 0 && close(file) == 0;
}

static int writes(const char *path, const char *text) {
  int file = open(path, O_WRONLY);
  return file >= 0 && write(file, text, strlen(text)) > 0;
}

static int user_namespace(void) { return unshare(CLONE_NEWUSER) == 0; }
static int mount_namespace(void) { return unshare(CLONE_NEWNS) == 0; }
static int network_namespace(void) { return unshare(CLONE_NEWNET) == 0; }
static int mounts(void) { return mount("none", "/tmp", "tmpfs", 0, "") == 0; }
static int remounts(void) {
  return mount("", "/", "", MS_REMOUNT | MS_BIND, "") == 0 ||
         umount2("/proc", MNT_DETACH) == 0 || umount2("/src", MNT_DETACH) == 0;
}
static int new_mount_calls(void) {
  return syscall(428, -100, "/", 1) >= 0 || syscall(430, "tmpfs", 0) >= 0;
}
static int pivots(void) { return syscall(SYS_pivot_root, "/", "/tmp") == 0; }
static int changes_root(void) { return chroot("/tmp") == 0; }
static int makes_disk(void) {
  return mknod("/tmp/disk", S_IFBLK | 0600, 8 << 8) == 0 &&
         opens("/tmp/disk", O_RDONLY);
}
static int makes_memory_device(void) {
  return mknod("/build/mem", S_IFCHR | 0600, (1 << 8) | 1) == 0 &&
         opens("/build/mem", O_RDONLY);
}
static int opens_devices(void) {
  return opens("/dev/mem", O_RDONLY) || opens("/dev/kmsg", O_RDONLY) ||
         opens("/dev/vda", O_RDONLY) || opens("/dev/sda", O_RDONLY) ||
         opens("/dev/fuse", O_RDWR) || opens("/dev/kvm", O_RDWR) ||
         opens("/dev/net/tun", O_RDWR);
}
static int enters_namespace(void) {
  int file = open("/proc/1/ns/mnt", O_RDONLY);
  return file >= 0 && setns(file, 0) == 0;
}
static int opens_by_handle(void) {
  struct {
    struct file_handle head;
    unsigned char bytes[8];
  } root = {{8, 1}, {2, 0, 0, 0, 0, 0, 0, 0}};
  int here = open("/", O_RDONLY);
  return open_by_handle_at(here, &root.head, O_RDONLY) >= 0;
}
static int loads_programs(void) {
  char attributes[128] = {0};
  *(unsigned *)attributes = 1; /* BPF_MAP_TYPE_HASH */
  unsigned *size = (unsigned *)attributes;
  size[1] = size[2] = size[3] = 4;
  return syscall(SYS_bpf, 0, attributes, sizeof attributes) >= 0;
}
static int measures_kernel(void) {
  struct perf_event_attr attributes = {
      .type = PERF_TYPE_SOFTWARE,
      .size = sizeof attributes,
      .config = PERF_COUNT_SW_CPU_CLOCK,
  };
  return syscall(SYS_perf_event_open, &attributes, -1, 0, -1, 0) >= 0;
}
static int faults_in_user(void) { return syscall(SYS_userfaultfd, 0) >= 0; }
static int rings(void) {
  char parameters[256] = {0};
  return syscall(SYS_io_uring_setup, 4, parameters) >= 0;
}
static int keeps_keys(void) {
  return syscall(SYS_add_key, "user", "rai-test", "x", 1, -4 /* user's */) >= 0 ||
         syscall(SYS_keyctl, 0, -4, 1) >= 0;
}
static int sets_clock(void) {
  struct timeval now;
  gettimeofday(&now, NULL);
  return settimeofday(&now, NULL) == 0;
}
static int names_host(void) { return sethostname("mine", 4) == 0; }
static int reboots(void) { return reboot(RB_DISABLE_CAD) == 0; }
static int loads_modules(void) {
  return syscall(SYS_init_module, "", 0, "") == 0 || errno != EPERM;
}
static int loads_kernels(void) {
  return syscall(SYS_kexec_load, 0, 0, NULL, 0) == 0;
}
static int swaps(void) {
  return syscall(SYS_swapon, "/tmp/x", 0) == 0 || errno != EPERM;
}
static int reads_kernel_log(void) {
  char text[16];
  return klogctl(3, text, sizeof text) > 0;
}
static int raw_socket(void) { return socket(AF_INET, SOCK_RAW, 1) >= 0; }
static int packet_socket(void) { return socket(AF_PACKET, SOCK_RAW, 0) >= 0; }
static int vsock(void) { return socket(AF_VSOCK, SOCK_STREAM, 0) >= 0; }
static int higher_priority(void) { return setpriority(PRIO_PROCESS, 0, -5) == 0; }
static int real_time(void) {
  struct sched_param priority = {10};
  return sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
}
static int spared_by_oom(void) {
  return writes("/proc/self/oom_score_adj", "-1000") ||
         writes("/proc/1/oom_score_adj", "-1000");
}
static int more_files(void) {
  struct rlimit most = {1 << 20, 1 << 20};
  return setrlimit(RLIMIT_NOFILE, &most) == 0;
}
static int dumps_core(void) {
  struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
  return setrlimit(RLIMIT_CORE, &most) == 0;
}
static int traces_first(void) {
  if (ptrace(PTRACE_ATTACH, 1, 0, 0) != 0) return 0;
  waitpid(1, NULL, __WALL);
  ptrace(PTRACE_DETACH, 1, 0, 0);
  return 1;
}
static int reads_first(void) {
  char text[8];
  struct iovec own = {text, 8}, other = {(void *)0x400000, 8};
  return opens("/proc/1/mem", O_RDWR) ||
         process_vm_readv(1, &own, 1, &other, 1, 0) > 0 ||
         opens("/proc/1/root/etc/shadow", O_RDONLY);
}
static int takes_files_of_first(void) {
  int first = syscall(434 /* pidfd_open */, 1, 0);
  return first >= 0 && syscall(438 /* pidfd_getfd */, first, 0, 0) >= 0;
}
static int types_into_terminal(void) {
  return ioctl(0, TIOCSTI, "x") == 0 || ioctl(2, TIOCSTI, "x") == 0 ||
         (opens("/dev/tty", O_RDWR) && ioctl(open("/dev/tty", O_RDWR), TIOCSTI, "x") == 0);
}
static int system_settings(void) {
  return writes("/proc/sys/kernel/core_pattern", "|/tmp/x") ||
         writes("/proc/sys/kernel/hostname", "mine") ||
         writes("/proc/sys/vm/drop_caches", "1") ||
         writes("/proc/sysrq-trigger", "h") ||
         writes("/sys/kernel/mm/transparent_hugepage/enabled", "never") ||
         writes("/sys/kernel/uevent_helper", "/tmp/x");
}
static int control_groups(void) {
  return writes("/sys/fs/cgroup/cgroup.procs", "0") ||
         writes("/sys/fs/cgroup/memory/tasks", "0") ||
         writes("/sys/fs/cgroup/memory/memory.limit_in_bytes", "-1") ||
         writes("/sys/fs/cgroup/pids/pids.max", "max") ||
         writes("/sys/fs/cgroup/memory.max", "max") ||
         mkdir("/sys/fs/cgroup/memory/mine", 0700) == 0 ||
         (mkdir("/sys/fs/cgroup/mine", 0700) == 0 && /* on v1 a tmpfs, without groups */
          access("/sys/fs/cgroup/mine/cgroup.procs", F_OK) == 0);
}
static int host_sockets(void) {
  return access("/var/run/docker.sock", F_OK) == 0 ||
         access("/run/docker.sock", F_OK) == 0 ||
         access("/run/dbus/system_bus_socket", F_OK) == 0 ||
         access("/run/containerd/containerd.sock", F_OK) == 0;
}
static int host_files(void) {
  return opens("/etc/shadow-", O_RDONLY) || opens("/root/.ssh/id_rsa", O_RDONLY) ||
         opens("/proc/kcore", O_RDONLY) || opens("/proc/1/environ", O_RDONLY) ||
         access("/var/lib/docker/overlay2", F_OK) == 0;
}
static int becomes_root(void) {
  if (getuid() == 0) return 0; /* root of a container, which is tried elsewhere */
  return setuid(0) == 0 || setgid(0) == 0 || setresuid(0, 0, 0) == 0;
}
static int has_capabilities(void) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2];
  unsigned files = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4; /* those of compatible runs */
  return syscall(SYS_capget, &head, sets) == 0 &&
         ((sets[0].permitted & ~files) || sets[1].permitted);
}

static const struct {
  const char *name;
  int (*tried)(void);
} ATTEMPTS[] = {
    {"user-namespace", user_namespace},
    {"mount-namespace", mount_namespace},
    {"network-namespace", network_namespace},
    {"mount", mounts},
    {"remount", remounts},
    {"open-tree", new_mount_calls},
    {"pivot-root", pivots},
    {"chroot", changes_root},
    {"disk", makes_disk},
    {"memory-device", makes_memory_device},
    {"devices", opens_devices},
    {"setns", enters_namespace},
    {"handle", opens_by_handle},
    {"bpf", loads_programs},
    {"perf", measures_kernel},
    {"userfaultfd", faults_in_user},
    {"io-uring", rings},
    {"keys", keeps_keys},
    {"clock", sets_clock},
    {"host-name", names_host},
    {"reboot", reboots},
    {"modules", loads_modules},
    {"kexec", loads_kernels},
    {"swap", swaps},
    {"kernel-log", reads_kernel_log},
    {"raw-socket", raw_socket},
    {"packet-socket", packet_socket},
    {"vsock", vsock},
    {"priority", higher_priority},
    {"real-time", real_time},
    {"oom-score", spared_by_oom},
    {"open-files", more_files},
    {"core-files", dumps_core},
    {"trace-first", traces_first},
    {"read-first", reads_first},
    {"files-of-first", takes_files_of_first},
    {"terminal", types_into_terminal},
    {"system-settings", system_settings},
    {"control-groups", control_groups},
    {"host-sockets", host_sockets},
    {"host-files", host_files},
    {"root", becomes_root},
    {"capabilities", has_capabilities},
};

static int wanted(const char *name, int count, char **names) {
  for (int n = 1; n < count; n++)
    if (strcmp(names[n], name) == 0) return 1;
  return count == 1;
}

int main(int count, char **names) {
  for (size_t n = 0; n < sizeof ATTEMPTS / sizeof *ATTEMPTS; n++) {
    if (!wanted(ATTEMPTS[n].name, count, names)) continue;
    pid_t child = fork(); /* each in its own, as one may change what the next can */
    if (child == 0) {
      alarm(3);
      errno = 0;
      int got = ATTEMPTS[n].tried();
      printf("%s %s\n", got ? "got" : "refused", ATTEMPTS[n].name);
      fflush(stdout);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status) printf("ended %s\n", ATTEMPTS[n].name);
    fflush(stdout);
  }
  return 0;
}
