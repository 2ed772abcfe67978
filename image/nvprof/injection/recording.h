// What a process leaves behind: records in mapped memory, so that they outlive any crash.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "records.h"

class Recording {
public:
    // How long the end of a program waits for a lock, whose holder a signal may have interrupted.
    static constexpr std::chrono::seconds PATIENCE{1};

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
        const Held held(lock_);
        put(kind, &record, sizeof record, nullptr, 0);
    }

    // Add a duration to a row, whoever else adds to it.
    void add(records::Total *row, uint64_t ns);

    void dropped(uint64_t activities);
    void versions(uint32_t driver, uint32_t cupti);

    // Whether the lock can be had.
    bool free();

    // Cut the file to what was recorded; nothing is recorded afterwards.
    void end();

    // Leave no file at all.
    void discard();

private:
    using Held = std::lock_guard<std::timed_mutex>;

    // Called with the lock held; null where there is no room, which is counted.
    char *put(records::Kind kind, const void *record, size_t size, const char *text,
              size_t length);
    bool grow();

    std::timed_mutex lock_;
    bool trace_ = false, full_ = false;
    // No descriptor is kept: a program may close it, and open a file of its own by its number.
    std::string file_, path_;
    char *base_ = nullptr;     // of the addresses that the file is mapped to
    size_t reserved_ = 0;      // bytes of addresses
    size_t mapped_ = 0;        // bytes of the file, from its beginning
    size_t at_ = 0;            // where the next record goes
    records::Header *header_ = nullptr;
    std::deque<std::string> texts_;
    std::unordered_map<std::string_view, uint32_t> names_;
    std::unordered_map<uint64_t, records::Total *> rows_;
};
