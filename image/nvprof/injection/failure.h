#pragma once

#include <cupti.h>

// CUPTI's text for an error; null for success.
inline const char *failure(CUptiResult result)
{
    if (result == CUPTI_SUCCESS)
        return nullptr;
    const char *text = nullptr;
    cuptiGetResultString(result, &text);
    return text ? text : "CUPTI failed";
}
