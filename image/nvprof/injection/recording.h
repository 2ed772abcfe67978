// What a process leaves behind: records in mapped memory, so that they outlive any crash.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "records.h"

class Recording {
public:
    // Begin a file of this process in a folder; false where there is no room for one.
    bool open(const std::string &folder, bool trace, uint64_t base);

    const std::string &file() const { return file_; }
    bool trace() const { return trace_; }

    // The number of a text, which is written down when it is first named.
    uint32_t name(std::string_view text);

    // The row of the summary for a name; null where there is no room for another.
    records::Total *row(records::Section section, uint32_t device, uint32_t name);

    // Append a record, whose lead is filled in.
    template <typename Record> void append(records::Kind kind, Record record)
    {
        std::lock_guard<std::mutex> held(lock_);
        put(kind, &record, sizeof record, nullptr, 0);
    }

    void dropped(uint64_t activities);
    void versions(uint32_t driver, uint32_t cupti);

    // Cut the file to what was recorded; nothing is recorded afterwards.
    void end();

private:
    // Called with the lock held; null where there is no room, which is counted.
    char *put(records::Kind kind, const void *record, size_t size, const char *text,
              size_t length);
    bool grow();

    std::mutex lock_;
    int fd_ = -1;
    bool trace_ = false, full_ = false;
    std::string file_;
    char *base_ = nullptr;     // of the addresses that the file is mapped to
    size_t reserved_ = 0;      // bytes of addresses
    size_t mapped_ = 0;        // bytes of the file, from its beginning
    size_t at_ = 0;            // where the next record goes
    records::Header *header_ = nullptr;
    std::deque<std::string> texts_;
    std::unordered_map<std::string_view, uint32_t> names_;
    std::unordered_map<uint64_t, records::Total *> rows_;
};

// Add a duration to a row, whoever else adds to it.
inline void add(records::Total *row, uint64_t ns)
{
    if (row == nullptr)
        return;
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
