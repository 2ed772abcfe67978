// The library that the driver loads into every program that uses CUDA, by the environment variable
// CUDA_INJECTION64_PATH (see "injection" in CUPTI's documentation). It records GPU activities and
// API calls to a file in the session's folder, which `nvprof` reads.

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

// The interval of flushing CUPTI's buffers, whose activities are lost when a program is killed.
constexpr long INTERVAL_MS = 100;
// Buffers are also flushed after synchronising calls, since processes of Python's multiprocessing
// exit without exit handlers. This takes at most 1/PARTS of the time.
constexpr uint64_t PARTS = 20;
// How long a program that is killed by a signal waits for the flush.
constexpr long LAST_WORDS_S = 2;

// Never destroyed: threads and exit handlers of the program may still call CUDA.
Settings &settings = *new Settings;
Recording &recording = *new Recording;

std::atomic<bool> ended;

pthread_t flusher;
sem_t flush_asked, flush_done;
std::atomic<bool> flush_all;
std::atomic<uint64_t> next_flush;  // the earliest time, of now()

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

// Send a line to `nvprof` through the FIFO, if it still reads.
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

// The driver is loaded, but its symbols may not be global.
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

// Flush in the other thread: this one may have been interrupted anywhere.
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
    // Restore the handler and raise again; the signal is delivered when this function returns.
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
        // Keep the program's own handlers.
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
    pthread_sigmask(SIG_SETMASK, &all, &kept);  // leave signals to the program's threads
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

// A forked child cannot use CUDA and does not have the flusher thread.
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
        tell("warn", "cannot record: no space in the session's folder");
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
