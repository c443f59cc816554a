-- An aggregate of one's own: how many TCP sequence numbers of the epoch had been seen already.
-- Use it with --functions examples/functions/duplicates.fun; with CLOSING_WHEN it remembers those of earlier epochs
-- (it has reinit), without it begins anew in each.

MODULE 'duplicates.py';

int UDAF sum_of_dups fstring4000 (uint);
