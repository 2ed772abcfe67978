#pragma once

#include <cupti.h>

// What CUPTI says of a result; null for a success.
inline const char *failure(CUptiResult result)
{
    if (result == CUPTI_SUCCESS)
        return nullptr;
    const char *text = nullptr;
    cuptiGetResultString(result, &text);
    return text ? text : "CUPTI failed";
}
