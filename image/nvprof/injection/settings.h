// The library's settings, which the program `nvprof` sets in the environment.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

struct Settings {
    std::string session;     // the folder for recordings; empty: do not record
    bool trace = false;      // record every activity, not only totals
    bool from_start = true;  // do not wait for cudaProfilerStart
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
