// The library that the driver loads into every program that uses CUDA, as the environment's
// CUDA_INJECTION64_PATH asks it to (CUPTI's manual, "CUPTI_INJECTION"). It records what the GPU
// does and what the program calls into a file of the session's folder, for `nvprof` to show.

#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "activities.h"
#include "calls.h"
#include "recording.h"
#include "settings.h"

namespace {

// Activities wait in CUPTI's buffers; what is there when a program is killed is lost.
constexpr long INTERVAL_MS = 100;
// After a wait for the GPU they are taken at once, since a fork of Python's ends without exit
// handlers; but so seldom that it costs the program at most one part in this many.
constexpr uint64_t PARTS = 20;
// How long a program that dies waits for them.
constexpr long LAST_WORDS_S = 2;

// Never destroyed: threads and exit handlers of the program call CUDA to the very end.
Settings &settings = *new Settings;
Recording &recording = *new Recording;

std::atomic<bool> ended;

pthread_t flusher;
sem_t flush_asked, flush_done;
std::atomic<bool> flush_all;
std::atomic<uint64_t> next_flush;  // not before, by now()

constexpr int FATAL[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGHUP};
struct sigaction before[NSIG];

timespec in(long s, long ms)
{
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ms * 1'000'000;
    t.tv_sec += s + t.tv_nsec / 1'000'000'000;
    t.tv_nsec %= 1'000'000'000;
    return t;
}

uint64_t now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

// One line to the program that waits at the other end of the FIFO, if it still does.
void tell(const char *what, const char *text)
{
    const int fd = open((settings.session + "/events").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    char line[512];
    const int size = snprintf(line, sizeof line, "%s %d%s%s\n", what, (int)getpid(),
                              *text ? " " : "", text);
    if (write(fd, line, size) < 0 && errno != EPIPE)
        perror("nvprof");
    close(fd);
}

// The driver is in this process, but it need not be where the linker looks for names.
uint32_t driver_version()
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    const auto get = driver ? (CUresult(*)(int *))dlsym(driver, "cuDriverGetVersion") : nullptr;
    int version = 0;
    if (get)
        get(&version);
    if (driver)
        dlclose(driver);
    return version;
}

void *flush_now_and_then(void *)
{
    for (;;) {
        const timespec until = in(0, INTERVAL_MS);
        const bool asked = sem_timedwait(&flush_asked, &until) == 0;
        if (ended)
            return nullptr;
        activities::flush(flush_all);
        if (asked)
            sem_post(&flush_done);
    }
}

// What runs here may have been interrupted anywhere: the other thread does the work.
void on_fatal_signal(int number, siginfo_t *, void *)
{
    static std::atomic<bool> first{true};
    const int error = errno;
    if (!ended && first.exchange(false)) {
        flush_all = true;
        sem_post(&flush_asked);
        const timespec until = in(LAST_WORDS_S, 0);
        while (sem_timedwait(&flush_done, &until) != 0 && errno == EINTR)
            ;
    }
    // Once more, as if we had not been here; it is delivered when this function returns.
    sigaction(number, &before[number], nullptr);
    raise(number);
    errno = error;
}

void watch_for_signals()
{
    struct sigaction ours = {};
    ours.sa_sigaction = on_fatal_signal;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    for (const int number : FATAL) {
        sigaction(number, nullptr, &before[number]);
        // A program that has a plan of its own is left to it.
        if (!(before[number].sa_flags & SA_SIGINFO) && before[number].sa_handler == SIG_DFL)
            sigaction(number, &ours, nullptr);
    }
}

void begin_flusher()
{
    sem_init(&flush_asked, 0, 0);
    sem_init(&flush_done, 0, 0);
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);  // the program's signals are for its threads
    pthread_create(&flusher, nullptr, flush_now_and_then, nullptr);
    pthread_sigmask(SIG_SETMASK, &kept, nullptr);
}

void synchronized()
{
    const uint64_t time = now();
    uint64_t due = next_flush;
    if (ended || time < due || !next_flush.compare_exchange_strong(due, UINT64_MAX))
        return;
    activities::flush(false);
    const uint64_t after = now();
    next_flush = after + PARTS * (after - time);
}

void profiling(bool on)
{
    if (ended)
        return;
    if (on) {
        activities::enable();
    } else {
        activities::flush(false);
        activities::disable();
    }
    calls::record(on);
}

void end()
{
    if (ended.exchange(true))
        return;
    calls::record(false);
    if (!recording.free())
        return;
    sem_post(&flush_asked);
    pthread_join(flusher, nullptr);
    activities::flush(true);
    recording.end();
    tell("end", "");
}

// A fork of a program that uses CUDA cannot use it, nor has it our thread.
void in_child()
{
    ended = true;
    calls::leave();
    activities::leave();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection()
{
    settings = Settings::of_environment();
    if (settings.session.empty())
        return 1;
    uint64_t base = 0;
    cuptiGetTimestamp(&base);
    if (!recording.open(settings.session, settings.trace, base)) {
        tell("warn", "no room to record in the session's folder");
        return 1;
    }
    const char *why = activities::deliver_to(recording, settings.demangle);
    if (!why)
        why = calls::count_in(recording, {synchronized, profiling});
    if (!why && settings.from_start)
        why = activities::enable();
    if (why) {
        calls::leave();
        recording.discard();
        tell("warn", why);
        return 1;
    }
    uint32_t cupti = 0;
    cuptiGetVersion(&cupti);
    recording.versions(driver_version(), cupti);
    begin_flusher();
    watch_for_signals();
    pthread_atfork(nullptr, nullptr, in_child);
    atexit(end);
    calls::record(settings.from_start);
    tell("start", recording.file().c_str());
    return 1;
}
