// A process's recording: records in a mapped file, which survive any crash.
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
    // How long an exiting program waits for a lock, whose holder a signal may have interrupted.
    static constexpr std::chrono::seconds PATIENCE{1};

    // Make this process's file in a folder; false if it cannot be made.
    bool open(const std::string &folder, bool trace, uint64_t base);

    const std::string &file() const { return file_; }
    bool trace() const { return trace_; }

    // The ID of a text, which is written at its first use.
    uint32_t name(std::string_view text);

    // The row of the summary for a name; null if there is no space for another.
    records::Total *row(records::Section section, uint32_t device, uint32_t name);

    // Append a record and fill in its lead.
    template <typename Record> void append(records::Kind kind, Record record)
    {
        const Held held(lock_);
        put(kind, &record, sizeof record, nullptr, 0);
    }

    // Add a duration to a row; safe from several threads.
    void add(records::Total *row, uint64_t ns);

    void dropped(uint64_t activities);
    void versions(uint32_t driver, uint32_t cupti);

    // Whether the lock is acquired within PATIENCE.
    bool free();

    // Truncate the file to the recorded size and stop recording.
    void end();

    // Remove the file.
    void discard();

private:
    using Held = std::lock_guard<std::timed_mutex>;

    // Requires the lock. Returns null if there is no space, and counts the lost record.
    char *put(records::Kind kind, const void *record, size_t size, const char *text,
              size_t length);
    bool grow();

    std::timed_mutex lock_;
    bool trace_ = false, full_ = false;
    // No descriptor is kept open: the program may close it and reuse its number.
    std::string file_, path_;
    char *base_ = nullptr;     // of the reserved address range
    size_t reserved_ = 0;      // its size in bytes
    size_t mapped_ = 0;        // mapped bytes of the file
    size_t at_ = 0;            // the offset of the next record
    records::Header *header_ = nullptr;
    std::deque<std::string> texts_;
    std::unordered_map<std::string_view, uint32_t> names_;
    std::unordered_map<uint64_t, records::Total *> rows_;
};
