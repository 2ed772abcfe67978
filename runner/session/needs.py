from runner.core.needs import JobNeeds


def needs_of(prepared):
    return JobNeeds(prepared.request.spec.limits.memory_bytes, 3600.0)
