"""The warm worker and its candidates; standard library only, in processes that hold no secret."""
