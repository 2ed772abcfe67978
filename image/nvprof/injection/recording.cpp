#include "recording.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace {

constexpr size_t MIB = 1 << 20;
constexpr size_t CHUNK = 4 * MIB;             // growth of the file
constexpr size_t ADDRESSES = (size_t)1 << 40; // reserved, so that records never move
constexpr size_t LONGEST = MIB;               // longer texts are truncated
constexpr size_t FEW_ADDRESSES = 256 * MIB;   // the least, if a limit forbids more

size_t rounded(size_t bytes) { return (bytes + 7) / 8 * 8; }

uint64_t unix_ns()
{
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// The NUL-terminated arguments of this process, truncated after an argument.
size_t command_line(char *to, size_t room)
{
    const int fd = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t size = 0;
    for (ssize_t n; size < room && (n = read(fd, to + size, room - size)) > 0;)
        size += n;
    ::close(fd);
    while (size > 0 && to[size - 1] != 0)
        size--;
    memset(to + size, 0, room - size);
    return size;
}

int create(const std::string &folder, std::string &file)
{
    const std::string pid = std::to_string(getpid());
    for (int n = 0; n < 1000; n++) {
        file = pid + (n ? "." + std::to_string(n) : "") + ".prof";
        const int fd =
            ::open((folder + "/" + file).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

}  // namespace

bool Recording::open(const std::string &folder, bool trace, uint64_t base)
{
    const int fd = create(folder, file_);
    if (fd < 0)
        return false;
    ::close(fd);
    path_ = folder + "/" + file_;
    trace_ = trace;
    for (reserved_ = ADDRESSES; reserved_ >= FEW_ADDRESSES; reserved_ /= 16) {
        void *p = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1, 0);
        if (p != MAP_FAILED) {
            base_ = (char *)p;
            break;
        }
    }
    if (base_ == nullptr || !grow()) {
        discard();
        return false;
    }
    header_ = (records::Header *)base_;
    at_ = sizeof *header_;
    memcpy(header_->magic, records::MAGIC, sizeof header_->magic);
    header_->pid = getpid();
    header_->parent = getppid();
    header_->trace = trace;
    header_->base = base;
    header_->started_ns = unix_ns();
    command_line(header_->command, sizeof header_->command);
    return true;
}

// Allocate blocks before mapping them, so that a full disk is an error here and not a signal at
// the first write.
bool Recording::grow()
{
    rlimit most;  // exceeding it raises SIGXFSZ
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && mapped_ + CHUNK > most.rlim_cur)
        return false;
    if (mapped_ + CHUNK > reserved_)
        return false;
    // If the program outlives nvprof, the file has been removed.
    const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool grown =
        posix_fallocate(fd, mapped_, CHUNK) == 0 &&
        mmap(base_ + mapped_, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, mapped_) !=
            MAP_FAILED;
    ::close(fd);
    if (!grown)
        return false;
    mapped_ += CHUNK;
    // Records of a trace are not read again, so only the header stays mapped.
    if (trace_ && mapped_ > 3 * CHUNK)
        munmap(base_ + mapped_ - 3 * CHUNK, CHUNK);
    return true;
}

char *Recording::put(records::Kind kind, const void *record, size_t size, const char *text,
                     size_t length)
{
    const size_t bytes = rounded(size + length);
    if (header_ == nullptr)
        return nullptr;
    full_ = full_ || (at_ + bytes > mapped_ && !grow());
    if (full_) {
        header_->lost += kind != records::NAME && kind != records::TOTAL;
        return nullptr;
    }
    char *to = base_ + at_;
    memcpy(to, record, size);
    if (length)
        memcpy(to + size, text, length);
    *(records::Lead *)to = {kind, (uint32_t)bytes};
    at_ += bytes;
    // Commit last, so that a reader after a crash sees only complete records.
    __atomic_store_n(&header_->committed, at_ - sizeof *header_, __ATOMIC_RELEASE);
    return to;
}

uint32_t Recording::name(std::string_view text)
{
    const Held held(lock_);
    if (const auto known = names_.find(text); known != names_.end())
        return known->second;
    const uint32_t id = texts_.size();
    texts_.emplace_back(text);
    names_.emplace(texts_.back(), id);
    const size_t length = std::min(text.size(), LONGEST);
    const records::Name record{{}, id, (uint32_t)length};
    put(records::NAME, &record, sizeof record, text.data(), length);
    return id;
}

records::Total *Recording::row(records::Section section, uint32_t device, uint32_t name)
{
    const Held held(lock_);
    const uint64_t key = (uint64_t)name << 32 | (device & 0xffff) << 1 | section;
    auto known = rows_.find(key);
    if (known == rows_.end()) {
        const records::Total fresh{{}, name, section, device, 0, 0, 0, UINT64_MAX, 0};
        char *at = put(records::TOTAL, &fresh, sizeof fresh, nullptr, 0);
        known = rows_.emplace(key, (records::Total *)at).first;
    }
    return known->second;
}

void Recording::add(records::Total *row, uint64_t ns)
{
    if (row == nullptr) {
        const Held held(lock_);
        if (header_)
            header_->lost++;
        return;
    }
    __atomic_fetch_add(&row->count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&row->total_ns, ns, __ATOMIC_RELAXED);
    uint64_t least = __atomic_load_n(&row->min_ns, __ATOMIC_RELAXED);
    while (ns < least && !__atomic_compare_exchange_n(&row->min_ns, &least, ns, true,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    uint64_t most = __atomic_load_n(&row->max_ns, __ATOMIC_RELAXED);
    while (ns > most && !__atomic_compare_exchange_n(&row->max_ns, &most, ns, true,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void Recording::dropped(uint64_t activities)
{
    const Held held(lock_);
    if (header_)
        header_->dropped += activities;
}

void Recording::versions(uint32_t driver, uint32_t cupti)
{
    header_->driver = driver;
    header_->cupti = cupti;
}

bool Recording::free()
{
    return std::unique_lock<std::timed_mutex>(lock_, PATIENCE).owns_lock();
}

void Recording::end()
{
    const Held held(lock_);
    if (header_ == nullptr)
        return;
    header_->ended = 1;
    header_ = nullptr;
    // Memory beyond the end stays mapped, but put() does not write any more. If truncating fails,
    // or the file was removed, a reader still stops at `committed`.
    if (truncate(path_.c_str(), at_) != 0 && errno != ENOENT)
        perror("nvprof");
}

void Recording::discard()
{
    const Held held(lock_);
    header_ = nullptr;
    unlink(path_.c_str());
}
