"""Stock, parcels and delivery routes of a small warehouse."""
