// What the program `nvprof` asks of the library, by the environment.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

struct Settings {
    std::string session;     // the folder for what is recorded; empty: not asked to record
    bool trace = false;      // every activity, or totals only
    bool from_start = true;  // or from cudaProfilerStart on
    bool demangle = true;

    static Settings of_environment()
    {
        const auto is = [](const char *name, const char *value) {
            const char *set = getenv(name);
            return set != nullptr && strcmp(set, value) == 0;
        };
        Settings settings;
        if (const char *session = getenv("NVPROF_SESSION"))
            settings.session = session;
        settings.trace = is("NVPROF_TRACE", "1");
        settings.from_start = !is("NVPROF_FROM_START", "0");
        settings.demangle = !is("NVPROF_DEMANGLE", "0");
        return settings;
    }
};
